//! An average rate with room for one second's worth at once.

use std::time::{Duration, Instant};

/// Fills at `rate` a second up to one second's worth, `min(rate, level + rate t)`.
pub(super) struct Bucket {
    rate: f64,
    level: f64,
    at: Instant,
}

impl Bucket {
    /// Full.
    pub(super) fn new(rate: f64, now: Instant) -> Self {
        Self { rate, level: rate, at: now }
    }

    /// How long to wait until `amount` is there, if it is not.
    pub(super) fn lacks(&mut self, amount: f64, now: Instant) -> Option<Duration> {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.level = (self.level + passed * self.rate).min(self.rate);
        self.at = now;
        // A level that was filled in steps may miss a whole number by a rounding error.
        let missing = amount - self.level - 1e-9 * self.rate;
        (missing > 0.0).then(|| Duration::from_secs_f64((missing / self.rate).min(3600.0)))
    }

    /// Takes an amount. What is not there is owed: an answer's length is known when it is made.
    pub(super) fn take(&mut self, amount: f64) {
        self.level -= amount;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_average_rate_holds_and_one_seconds_worth_may_come_at_once() {
        let start = Instant::now();
        let mut bucket = Bucket::new(10.0, start);
        for _ in 0..10 {
            assert_eq!(bucket.lacks(1.0, start), None);
            bucket.take(1.0);
        }
        assert!(bucket.lacks(1.0, start).is_some());
        assert_eq!(bucket.lacks(1.0, start + Duration::from_millis(100)), None);
        bucket.take(1.0);
        assert!(bucket.lacks(1.0, start + Duration::from_millis(150)).is_some());
        assert_eq!(bucket.lacks(10.0, start + Duration::from_secs(60)), None);
        assert!(bucket.lacks(11.0, start + Duration::from_secs(60)).is_some());
    }

    #[test]
    fn what_was_taken_beyond_the_level_is_paid_back() {
        let start = Instant::now();
        let mut bucket = Bucket::new(100.0, start);
        bucket.take(350.0);
        let wait = bucket.lacks(0.0, start).unwrap();
        assert!((wait.as_secs_f64() - 2.5).abs() < 1e-6, "{wait:?}");
        assert_eq!(bucket.lacks(0.0, start + Duration::from_millis(2500)), None);
    }
}
