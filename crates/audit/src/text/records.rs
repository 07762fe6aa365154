//! Synthetic records with planted names, e-mail addresses and telephone numbers, and notes without.
//!
//! Names come from one directory of 307, the paper's number of distinct names among 600 records,
//! so that names repeat within a collection and between the owner's and the attacker's. E-mail
//! addresses and numbers are unique. All of it is a function of the seed.

use std::collections::HashSet;

use rand_core::Rng;

use crate::tools::statistics::{below, generator, sample};

/// Distinct names.
pub const NAMES: usize = 307;

const FIRST: &str = "alice bruno carla daniel elena farid grace henrik irene jonas katya liam \
    marta nadia oscar paula quentin rosa samuel teresa umar vera walter ximena yusuf zoe anton \
    bianca cedric dora";
const LAST: &str = "abbott bergman castillo dubois eriksen fischer garcia hoffman ivanova jensen \
    kowalski lindqvist moreau novak okafor petrov quinn romero schmidt tanaka ueda vasquez weber \
    xenakis yilmaz zhang almeida brandt conti dvorak";
const DOMAINS: &str = "mailbox courier postal inbox letters";

/// Words of one topic each.
const TOPICS: [&str; 12] = [
    "invoice refund payment balance overdue credit statement tax receipt charge",
    "clinic diagnosis prescription allergy dosage surgery referral symptom therapy nurse",
    "router outage bandwidth firmware reset modem signal latency cable antenna",
    "lease tenant deposit landlord eviction apartment repair boiler heating keys",
    "flight luggage boarding delay visa itinerary hotel booking passport transfer",
    "warranty engine brake mileage dealer tyre gearbox insurance collision mechanic",
    "exam tuition lecture enrolment scholarship thesis campus tutor grade library",
    "parcel courier customs shipment tracking warehouse pallet damaged address signature",
    "contract clause hearing witness appeal settlement counsel verdict plaintiff notary",
    "harvest irrigation fertiliser orchard tractor seedling drought barn livestock soil",
    "salary promotion vacancy interview overtime pension resignation contractor shift badge",
    "concert ticket orchestra rehearsal venue encore festival drummer chorus microphone",
];
const GLUE: &str = "the a of and for to with about after before again still was is on";

/// A record about a person.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// All of it.
    pub text: String,
    /// First and last name; others may have the same.
    pub name: String,
    /// An address that no other record has.
    pub email: String,
    /// A number that no other record has.
    pub phone: String,
}

/// Records whose first [`NAMES`] bear different names; later ones repeat them at random.
pub fn records(count: usize, seed: u64) -> Vec<Record> {
    let mut rng = generator(seed, RECORDS);
    let directory = directory(&mut rng);
    let domains: Vec<&str> = DOMAINS.split_whitespace().collect();
    let mut taken = HashSet::new();
    let mut unique = |make: &mut dyn FnMut() -> String| loop {
        let candidate = make();
        if taken.insert(candidate.clone()) {
            return candidate;
        }
    };
    (0..count)
        .map(|at| {
            let (first, last) = directory[if at < NAMES { at } else { below(NAMES, &mut rng) }];
            let email = unique(&mut || {
                let domain = domains[below(domains.len(), &mut rng)];
                format!("{first}.{last}{:04}@{domain}.example", below(10_000, &mut rng))
            });
            let phone = unique(&mut || {
                let mut pair = || below(100, &mut rng);
                format!("+{:02} {:02} {:02} {:02} {:02}", pair(), pair(), pair(), pair(), pair())
            });
            let about = sentence(8, &mut rng);
            let text = format!("{first} {last} wrote {about} reply to {email} or call {phone}");
            Record { text, name: format!("{first} {last}"), email, phone }
        })
        .collect()
}

/// Notes without names.
pub fn notes(count: usize, seed: u64) -> Vec<String> {
    let mut rng = generator(seed, NOTES);
    (0..count).map(|_| sentence(20, &mut rng)).collect()
}

const RECORDS: u64 = 0x7265_636f;
const NOTES: u64 = 0x6e6f_7465;

fn directory(rng: &mut impl Rng) -> Vec<(&'static str, &'static str)> {
    let (first, last): (Vec<&str>, Vec<&str>) =
        (FIRST.split_whitespace().collect(), LAST.split_whitespace().collect());
    let pairs = sample(first.len() * last.len(), NAMES, rng);
    pairs.into_iter().map(|at| (first[at / last.len()], last[at % last.len()])).collect()
}

/// Words of one topic, every third a common one.
fn sentence(words: usize, rng: &mut impl Rng) -> String {
    let topic: Vec<&str> = TOPICS[below(TOPICS.len(), rng)].split_whitespace().collect();
    let glue: Vec<&str> = GLUE.split_whitespace().collect();
    let word = |at: usize| {
        let from = if at.is_multiple_of(3) { &glue } else { &topic };
        from[below(from.len(), rng)]
    };
    (0..words).map(word).collect::<Vec<&str>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_repeat_and_addresses_and_numbers_do_not() {
        let records = records(600, 2026);
        assert_eq!(records, super::records(600, 2026));
        assert_ne!(records, super::records(600, 2027));
        let distinct =
            |of: fn(&Record) -> &String| records.iter().map(of).collect::<HashSet<_>>().len();
        assert_eq!(distinct(|r| &r.name), NAMES);
        assert_eq!((distinct(|r| &r.email), distinct(|r| &r.phone)), (600, 600));
        for record in &records {
            for secret in [&record.name, &record.email, &record.phone] {
                assert!(record.text.contains(secret.as_str()));
            }
        }
    }

    #[test]
    fn notes_name_nobody() {
        let people: HashSet<&str> =
            FIRST.split_whitespace().chain(LAST.split_whitespace()).collect();
        assert!(notes(50, 1).iter().all(|note| note.split(' ').all(|word| !people.contains(word))));
    }
}
