//! What the way to a server carries, learnt from the searches that went over it.
//!
//! An exchange takes a round trip, the server's computing and the time its bytes travel:
//!
//! ```text
//! elapsed = rtt + compute + 8 bytes / rate .
//! ```
//!
//! The round trip is what the transport measured, the computing is the planner's estimate, so
//! every exchange gives a rate. The median of the last few is what the next plan is made for:
//! a rate that TCP reaches in bursts of this size, which is what counts, and not the link's own.
//! The first exchange is not counted: it waited for the connection.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use shard_rlwe::Objective;

/// Exchanges that are remembered.
const REMEMBERED: usize = 9;

/// Below this a transfer drowns in the noise of clocks and schedulers.
const SHORTEST: f64 = 50e-6;

/// Rates above this are all the same to the planner: bytes are free.
const FASTEST: f64 = 100e9;

/// The link of one client with one server.
#[derive(Default)]
pub(crate) struct Link {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    connected: bool,
    exchanges: VecDeque<Exchange>,
}

/// What is known of one exchange.
#[derive(Clone, Copy)]
pub(crate) struct Exchange {
    /// Bytes both ways.
    pub(crate) bytes: usize,
    /// From the first byte sent to the last received.
    pub(crate) elapsed: Duration,
    /// Seconds that the server computed, as planned.
    pub(crate) computing: f64,
}

impl Exchange {
    fn rate(&self, round_trip: Duration) -> f64 {
        let waiting = round_trip.as_secs_f64() + self.computing;
        let travelling = (self.elapsed.as_secs_f64() - waiting).max(SHORTEST);
        (8.0 * self.bytes as f64 / travelling).min(FASTEST)
    }
}

impl Link {
    /// Remembers an exchange.
    pub(crate) fn learn(&self, exchange: Exchange) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::mem::replace(&mut state.connected, true) {
            return;
        }
        if state.exchanges.len() == REMEMBERED {
            state.exchanges.pop_front();
        }
        state.exchanges.push_back(exchange);
    }

    /// What to plan for: the rate as far as it is known, 100 Mbit/s until then, and the least
    /// computing where there is no link. The round trip is asked for once there is an exchange to
    /// learn from, so that a single search does not wait for it.
    pub(crate) fn objective(
        &self,
        is_remote: bool,
        round_trip: impl FnOnce() -> Option<Duration>,
    ) -> Objective {
        if !is_remote {
            return Objective::Latency;
        }
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

    fn connected() -> Link {
        let link = Link::default();
        link.learn(Exchange { bytes: 1, elapsed: Duration::from_secs(9), computing: 0.0 });
        link
    }

    fn learn(link: &Link, milliseconds: u64, computing: f64) {
        let elapsed = Duration::from_millis(milliseconds);
        link.learn(Exchange { bytes: 125_000, elapsed, computing });
    }

    fn rate(link: &Link, round_trip: Duration) -> f64 {
        match link.objective(true, || Some(round_trip)) {
            Objective::Link(rate) => rate,
            other => panic!("nothing was learnt: {other:?}"),
        }
    }

    #[test]
    fn the_rate_is_what_remains_after_the_round_trip_and_the_computing() {
        let link = connected();
        // 125,000 bytes in 10 ms: 100 Mbit/s.
        learn(&link, 32, 2e-3);
        assert!((rate(&link, Duration::from_millis(20)) / 100e6 - 1.0).abs() < 1e-9);
    }

    #[test]
    fn before_anything_is_known_nobody_waits_for_a_round_trip() {
        let unasked = || -> Option<Duration> { panic!("the round trip was measured in vain") };
        assert_eq!(Link::default().objective(false, unasked), Objective::Latency);
        assert_eq!(Link::default().objective(true, unasked), Objective::Balanced);
        assert_eq!(connected().objective(true, unasked), Objective::Balanced);
    }

    #[test]
    fn one_bad_moment_does_not_change_the_plan_and_a_new_link_does() {
        let link = connected();
        (0..8).for_each(|_| learn(&link, 10, 0.0));
        learn(&link, 5000, 0.0);
        assert!((rate(&link, NO_TIME) / 100e6 - 1.0).abs() < 1e-9);
        (0..REMEMBERED).for_each(|_| learn(&link, 100, 0.0));
        assert!((rate(&link, NO_TIME) / 10e6 - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_path_faster_than_the_clock_is_merely_fast() {
        let link = connected();
        learn(&link, 0, 0.0);
        assert_eq!(rate(&link, Duration::from_millis(1)), 8.0 * 125_000.0 / SHORTEST);
    }
}
