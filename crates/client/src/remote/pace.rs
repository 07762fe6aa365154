//! What the way to a server carries, learnt from the messages that went over it.
//!
//! An exchange takes a round trip, the time the server keeps it waiting and computing, and the
//! time its bytes travel:
//!
//! ```text
//! elapsed = rtt + served + 8 bytes / rate .
//! ```
//!
//! The round trip is measured on an open connection, the server tells what it took, so every
//! exchange gives a rate. The median of the last few is what the next plan is made for: a rate
//! that TCP reaches in bursts of this size, which is what counts, and not the link's own. The
//! first exchange is not counted: it waited for the connection.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use shard_rlwe::Objective;

/// Exchanges that are remembered.
const REMEMBERED: usize = 9;

/// Exchanges shorter than this say more about the round trip than about the rate.
const FEWEST_BYTES: usize = 16 << 10;

/// Below this a transfer drowns in the noise of clocks and schedulers.
const SHORTEST: f64 = 50e-6;

/// The pace of one connection.
#[derive(Default)]
pub(super) struct Pace {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    connected: bool,
    exchanges: VecDeque<Exchange>,
}

/// What is known of one exchange.
#[derive(Clone, Copy)]
pub(super) struct Exchange {
    /// Bytes both ways.
    pub(super) bytes: usize,
    /// From the first byte sent to the last received.
    pub(super) elapsed: Duration,
    /// Time that the server says it took; it is not trusted with more than a plan.
    pub(super) served: Duration,
}

impl Exchange {
    fn rate(&self, round_trip: Duration) -> f64 {
        let travelling = self.elapsed.saturating_sub(self.served).saturating_sub(round_trip);
        8.0 * self.bytes as f64 / travelling.as_secs_f64().max(SHORTEST)
    }
}

impl Pace {
    /// Remembers an exchange.
    pub(super) fn learn(&self, exchange: Exchange) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::mem::replace(&mut state.connected, true) || exchange.bytes < FEWEST_BYTES {
            return;
        }
        if state.exchanges.len() == REMEMBERED {
            state.exchanges.pop_front();
        }
        state.exchanges.push_back(exchange);
    }

    /// What to plan for: the rate as far as it is known, and 100 Mbit/s until then. The round trip
    /// is asked for once there is an exchange to learn from, so that a single search does not wait
    /// for it.
    pub(super) fn objective(&self, round_trip: impl FnOnce() -> Option<Duration>) -> Objective {
        let exchanges: Vec<Exchange> = {
            let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.exchanges.iter().copied().collect()
        };
        if exchanges.is_empty() {
            return Objective::Balanced;
        }
        let Some(round_trip) = round_trip() else { return Objective::Balanced };
        let mut rates: Vec<f64> = exchanges.iter().map(|each| each.rate(round_trip)).collect();
        rates.sort_by(f64::total_cmp);
        Objective::Link(rates[rates.len() / 2])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_TIME: Duration = Duration::ZERO;

    fn connected() -> Pace {
        let pace = Pace::default();
        pace.learn(Exchange { bytes: 1 << 20, elapsed: Duration::from_secs(9), served: NO_TIME });
        pace
    }

    fn learn(pace: &Pace, milliseconds: u64, served: u64) {
        let (elapsed, served) =
            (Duration::from_millis(milliseconds), Duration::from_millis(served));
        pace.learn(Exchange { bytes: 125_000, elapsed, served });
    }

    fn rate(pace: &Pace, round_trip: Duration) -> f64 {
        match pace.objective(|| Some(round_trip)) {
            Objective::Link(rate) => rate,
            other => panic!("nothing was learnt: {other:?}"),
        }
    }

    #[test]
    fn the_rate_is_what_remains_after_the_round_trip_and_the_server() {
        let pace = connected();
        // 125,000 bytes in 10 ms: 100 Mbit/s.
        learn(&pace, 32, 2);
        assert!((rate(&pace, Duration::from_millis(20)) / 100e6 - 1.0).abs() < 1e-9);
        // A server that keeps everybody waiting does not make the link look slow.
        let pace = connected();
        learn(&pace, 530, 500);
        assert!((rate(&pace, Duration::from_millis(20)) / 100e6 - 1.0).abs() < 1e-9);
    }

    #[test]
    fn before_anything_is_known_nobody_waits_for_a_round_trip() {
        let unasked = || -> Option<Duration> { panic!("the round trip was measured in vain") };
        assert_eq!(Pace::default().objective(unasked), Objective::Balanced);
        assert_eq!(connected().objective(unasked), Objective::Balanced);
    }

    #[test]
    fn one_bad_moment_does_not_change_the_plan_and_a_new_link_does() {
        let pace = connected();
        (0..8).for_each(|_| learn(&pace, 10, 0));
        learn(&pace, 5000, 0);
        assert!((rate(&pace, NO_TIME) / 100e6 - 1.0).abs() < 1e-9);
        (0..REMEMBERED).for_each(|_| learn(&pace, 100, 0));
        assert!((rate(&pace, NO_TIME) / 10e6 - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_server_that_claims_more_time_than_passed_is_merely_fast() {
        let pace = connected();
        learn(&pace, 1, 1000);
        assert_eq!(rate(&pace, NO_TIME), 8.0 * 125_000.0 / SHORTEST);
    }
}
