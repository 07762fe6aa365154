//! Leases of servers, and the channel that tells of collections that moved on.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SendError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use shard_protocol::CollectionName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_postgres::{AsyncMessage, Client, Connection};

use super::address::Tls;
use super::{DatabaseAddress, HEADS, PostgresRows};
use crate::{Member, Members, StoreError, WorkerId};

/// Time between two tries to listen.
const PAUSE: Duration = Duration::from_secs(1);

/// The most messages that are taken together.
const TOGETHER: usize = 4096;

const RENEWING: &str = "renew a lease";

/// Deletes the leases of others that ran out more than a minute ago, renews one, and names all that have not
/// run out.
const RENEW: &str = "\
    WITH gone AS (DELETE FROM shard.workers \
        WHERE expires < now() - interval '1 minute' AND id <> $1), \
    mine AS ( \
        INSERT INTO shard.workers (id, address, certificate, ready, expires) \
        VALUES ($1, $2, $3, $4, now() + $5 * interval '1 millisecond') \
        ON CONFLICT (id) DO UPDATE SET address = excluded.address, certificate = excluded.certificate, \
            ready = excluded.ready, expires = excluded.expires \
        RETURNING id, address, certificate, ready) \
    SELECT id, address, certificate, ready FROM shard.workers WHERE expires >= now() AND id <> $1 \
    UNION ALL SELECT id, address, certificate, ready FROM mine";

/// What listens on the channel, begun with the first question.
#[derive(Default)]
pub(super) struct Listening(Mutex<Option<Receiver<Told>>>);

/// What was heard.
enum Told {
    /// A collection moved on.
    Moved(CollectionName),
    /// The channel is listened to from now on, or no longer: something may have been missed.
    Missed,
}

impl Members for PostgresRows {
    fn renew(&self, me: &Member, lease: Duration) -> Result<Vec<Member>, StoreError> {
        let milliseconds = lease.as_secs_f64() * 1e3;
        let (id, address) = (me.id.0 as i64, me.address.clone());
        let (certificate, ready) = (me.fingerprint.to_vec(), me.ready);
        let found = self.wait(|| async {
            self.ask(RENEWING, RENEW, &[&id, &address, &certificate, &ready, &milliseconds]).await
        })?;
        let member = |row: &tokio_postgres::Row| {
            let certificate: Vec<u8> = row.get(2);
            let fingerprint = certificate.try_into().map_err(|_| StoreError::Damaged {
                what: "a lease without the fingerprint of a certificate".to_owned(),
            })?;
            let id = WorkerId(row.get::<_, i64>(0) as u64);
            Ok(Member { id, address: row.get(1), fingerprint, ready: row.get(3) })
        };
        let mut all = found.iter().map(member).collect::<Result<Vec<_>, StoreError>>()?;
        all.sort_by_key(|member| member.id);
        Ok(all)
    }

    fn leave(&self, id: WorkerId) -> Result<(), StoreError> {
        let (id, sql) = (id.0 as i64, "DELETE FROM shard.workers WHERE id = $1");
        self.wait(|| async { self.ask("end a lease", sql, &[&id]).await }).map(drop)
    }

    fn moved(&self, at_most: Duration) -> Option<Vec<CollectionName>> {
        let mut listening = self.listening.0.lock().unwrap_or_else(PoisonError::into_inner);
        let heard = listening.get_or_insert_with(|| {
            let (sender, receiver) = channel();
            let (address, tls) = self.address.clone();
            self.runtime.handle().spawn(listen(address, tls, sender));
            receiver
        });
        let mut names = BTreeSet::new();
        let mut next = heard.recv_timeout(at_most);
        loop {
            match next {
                Ok(Told::Moved(name)) => names.insert(name),
                Ok(Told::Missed) | Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => break,
            };
            if names.len() >= TOGETHER {
                break;
            }
            next = heard.try_recv().map_err(|_| RecvTimeoutError::Timeout);
        }
        Some(names.into_iter().collect())
    }
}

/// Listens on a connection of its own until nobody wants to hear of it, and connects again when it is lost.
async fn listen(address: DatabaseAddress, tls: Tls, told: Sender<Told>) {
    loop {
        if let Ok((client, mut link)) = address.config().connect(tls.clone()).await
            && hear(&client, &mut link, &told).await.is_err()
        {
            return;
        }
        tokio::time::sleep(PAUSE).await;
        if told.send(Told::Missed).is_err() {
            return;
        }
    }
}

/// Asks to listen and tells what is heard until the connection is lost or does not listen. Fails when nobody
/// wants to hear of it.
async fn hear<S, T>(
    client: &Client,
    link: &mut Connection<S, T>,
    told: &Sender<Told>,
) -> Result<(), SendError<Told>>
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    let ask = format!("LISTEN {HEADS}");
    let mut asked = std::pin::pin!(client.batch_execute(&ask));
    let mut listens = false;
    loop {
        let message = tokio::select! {
            answer = &mut asked, if !listens => {
                if answer.is_err() {
                    return Ok(());
                }
                listens = true;
                // What happened until now was not heard.
                told.send(Told::Missed)?;
                continue;
            }
            message = poll_fn(|context| link.poll_message(context)) => message,
        };
        match message {
            Some(Ok(AsyncMessage::Notification(heard))) => {
                told.send(heard.payload().parse().map_or(Told::Missed, Told::Moved))?;
            }
            Some(Ok(_)) => {}
            Some(Err(_)) | None => return Ok(()),
        }
    }
}
