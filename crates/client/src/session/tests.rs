//! Who gets which session.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};

use super::*;

/// A session by number, for requests up to a size.
struct Numbered {
    number: usize,
    size: usize,
    remaining: u32,
}

impl Session for Numbered {
    type Shape = usize;

    fn shape(&self) -> usize {
        self.size
    }

    fn serves(&self, needed: &usize) -> bool {
        self.size >= *needed
    }

    fn remaining(&self) -> u32 {
        self.remaining
    }
}

const KEY_BYTES: usize = 100;

#[derive(Default)]
struct Bench {
    pool: Pool<Numbered>,
    opened: AtomicUsize,
}

impl Bench {
    fn open(&self, size: usize) -> Numbered {
        let number = self.opened.fetch_add(1, Ordering::SeqCst);
        Numbered { number, size, remaining: 3 }
    }

    /// The number of the session that served, with the bytes of its keys.
    fn request(
        &self,
        size: usize,
        ask: impl Fn(&Numbered) -> Result<(), ClientError>,
    ) -> Result<(usize, usize), ClientError> {
        let mut sent = 0;
        self.pool.request(&size, |session| {
            let session = session.get_or_insert_with(|| {
                sent += KEY_BYTES;
                self.open(size)
            });
            session.remaining -= 1;
            ask(session).map(|()| (session.number, sent))
        })
    }

    fn served(&self, size: usize) -> (usize, usize) {
        self.request(size, |_| Ok(())).unwrap()
    }
}

fn refused(code: RefusalCode) -> ClientError {
    Refusal { code, text: "no".into() }.into()
}

#[test]
fn a_session_is_kept_until_it_is_spent_and_replaced_where_it_does_not_serve() {
    let bench = Bench::default();
    assert_eq!(bench.pool.held(), None);
    assert_eq!(bench.served(5), (0, KEY_BYTES));
    assert_eq!(bench.pool.held(), Some(5));
    assert_eq!(bench.served(4), (0, 0));
    assert_eq!(bench.served(5), (0, 0));
    assert_eq!(bench.pool.held(), None, "three requests are what it was for");
    assert_eq!(bench.served(5), (1, KEY_BYTES));
    assert_eq!(bench.served(6), (2, KEY_BYTES));
    assert_eq!(bench.served(1), (2, 0), "the latest that serves");
}

#[test]
fn a_false_answer_retires_the_session_and_an_unanswered_request_does_not() {
    let bench = Bench::default();
    assert_eq!(bench.served(1), (0, KEY_BYTES));
    let failed = bench.request(1, |_| Err(refused(RefusalCode::Internal)));
    assert!(matches!(failed, Err(ClientError::Refused(_))));
    assert_eq!(bench.served(1), (0, 0));
    assert_eq!(bench.served(1), (1, KEY_BYTES), "the failed request counts");
    let lie = || ClientError::FalseAnswer { wrong: 1, checked: 8 };
    assert!(bench.request(1, |_| Err(lie())).is_err());
    assert_eq!(bench.served(1), (2, KEY_BYTES));
}

#[test]
fn an_unknown_session_is_replaced_once_and_all_keys_are_counted() {
    let bench = Bench::default();
    bench.served(1);
    let forgotten = |session: &Numbered| match session.number {
        0 => Err(refused(RefusalCode::UnknownSession)),
        _ => Ok(()),
    };
    assert_eq!(bench.request(1, forgotten).unwrap(), (1, KEY_BYTES));
    // A server that forgets at once: opened, unknown, opened again.
    let bench = Bench::default();
    assert_eq!(bench.request(1, forgotten).unwrap(), (1, 2 * KEY_BYTES));
    let never = bench.request(1, |_| Err(refused(RefusalCode::UnknownSession)));
    assert!(matches!(never, Err(ClientError::Refused(_))));
    assert_eq!(bench.opened.load(Ordering::SeqCst), 3, "no endless repetition");
}

#[test]
fn requests_at_once_have_sessions_of_their_own_and_the_fifth_waits() {
    let bench = Arc::new(Bench::default());
    let (inside, leave) = (Arc::new(Barrier::new(5)), Arc::new(Barrier::new(5)));
    let workers: Vec<_> = (0..4)
        .map(|_| {
            let (bench, inside, leave) = (bench.clone(), inside.clone(), leave.clone());
            std::thread::spawn(move || {
                let served = bench.request(1, |_| {
                    inside.wait();
                    leave.wait();
                    Ok(())
                });
                served.unwrap().0
            })
        })
        .collect();
    inside.wait(); // four requests are under way
    let fifth = std::thread::spawn({
        let bench = bench.clone();
        move || bench.served(1)
    });
    leave.wait();
    let mut numbers: Vec<usize> = workers.into_iter().map(|w| w.join().unwrap()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [0, 1, 2, 3]);
    assert_eq!(fifth.join().unwrap().1, 0, "it took a session over");
    assert_eq!(bench.opened.load(Ordering::SeqCst), 4);
}

#[test]
fn a_panic_frees_its_place() {
    let bench = Arc::new(Bench::default());
    for _ in 0..MOST_SESSIONS {
        let bench = bench.clone();
        let worker = std::thread::spawn(move || bench.request(1, |_| panic!("on purpose")).is_ok());
        assert!(worker.join().is_err());
    }
    assert_eq!(bench.served(1).1, KEY_BYTES);
}

#[test]
fn a_false_answer_retires_every_session_and_those_in_use_as_they_come_back() {
    let bench = Arc::new(Bench::default());
    let lie = || ClientError::FalseAnswer { wrong: 1, checked: 8 };
    // The outer request is under way while one inside meets a lie, and a third session is idle.
    let honest = bench.request(1, |_| {
        bench
            .request(1, |_| {
                bench.served(1);
                Err(lie())
            })
            .unwrap_err();
        Ok(())
    });
    assert_eq!(honest.unwrap(), (0, KEY_BYTES), "its own answer was sound");
    assert_eq!(bench.pool.held(), None);
    assert_eq!(bench.served(1), (3, KEY_BYTES));
    assert_eq!(bench.served(1), (3, 0), "sessions opened since then stay");
}
