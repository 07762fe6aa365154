//! The fields of a block's places as a value of the vault.
//!
//! ```text
//! version u16 | rows u64 | for each, ascending: place u64 | length u64 | JSON | ... zeros
//! ```

use std::collections::BTreeMap;

use zeroize::Zeroizing;

use super::{Fields, PADDING};
use crate::payload::{PayloadError, Reader, Writer};

const VERSION: u16 = 1;

/// The fields of a block's places, each as the JSON it is stored as. They are read when a filter asks.
#[derive(Clone, PartialEq, Eq, Default)]
pub(in crate::blind) struct BlockFields(BTreeMap<u32, Zeroizing<String>>);

impl BlockFields {
    /// Gives a place fields, or takes them away.
    pub(super) fn set(&mut self, place: u32, fields: Option<&Fields>) {
        match fields {
            Some(fields) => {
                let json = serde_json::to_string(&(&fields.kept, &fields.long));
                let json = json.expect("a map with texts for keys is JSON");
                self.0.insert(place, Zeroizing::new(json));
            }
            None => drop(self.0.remove(&place)),
        }
    }

    /// Gives a place the fields of another.
    pub(super) fn take_from(&mut self, place: u32, other: &Self, from: u32) {
        if let Some(json) = other.0.get(&from) {
            self.0.insert(place, json.clone());
        }
    }

    /// The places that have fields, ascending.
    pub(super) fn places(&self) -> impl Iterator<Item = u32> {
        self.0.keys().copied()
    }

    /// The fields of every place that has some.
    pub(super) fn rows(&self) -> impl Iterator<Item = (u32, Result<Fields, PayloadError>)> {
        self.0.iter().map(|(place, json)| (*place, parse(json)))
    }

    /// The fields of a place; `None` if it has none.
    pub(super) fn of(&self, place: u32) -> Option<Result<Fields, PayloadError>> {
        self.0.get(&place).map(|json| parse(json))
    }

    /// The value; `None` if no place has fields.
    pub(super) fn encode(&self) -> Option<Zeroizing<Vec<u8>>> {
        if self.0.is_empty() {
            return None;
        }
        let length = 10 + self.0.values().map(|json| 16 + json.len()).sum::<usize>();
        let padded = length.next_multiple_of(PADDING);
        let mut writer = Writer::new(VERSION);
        // All at once: what is moved to make room would be left behind.
        writer.bytes.reserve_exact(padded);
        writer.u64(self.0.len() as u64);
        for (place, json) in &self.0 {
            writer.u64((*place).into());
            writer.string(json);
        }
        writer.bytes.resize(padded, 0);
        Some(Zeroizing::new(writer.bytes))
    }

    /// Reads the value of a block of so many places.
    pub(in crate::blind) fn decode(bytes: &[u8], places: u32) -> Result<Self, PayloadError> {
        let invalid = || PayloadError::Invalid("its parts do not go together".into());
        let mut reader = Reader::new(bytes, VERSION)?;
        let count = reader.size()?;
        if count == 0 || count > places as usize || !bytes.len().is_multiple_of(PADDING) {
            return Err(invalid());
        }
        let mut rows: BTreeMap<u32, Zeroizing<String>> = BTreeMap::new();
        for _ in 0..count {
            let place = u32::try_from(reader.u64()?).map_err(|_| invalid())?;
            let json = Zeroizing::new(reader.string()?);
            let ascends = rows.last_key_value().is_none_or(|(last, _)| *last < place);
            if !ascends || place >= places {
                return Err(invalid());
            }
            rows.insert(place, json);
        }
        let padding = reader.rest();
        if padding.len() >= PADDING || padding.iter().any(|&byte| byte != 0) {
            return Err(invalid());
        }
        Ok(Self(rows))
    }
}

fn parse(json: &str) -> Result<Fields, PayloadError> {
    let parsed = serde_json::from_str(json).map(|(kept, long)| Fields { kept, long });
    parsed
        .map_err(|_| PayloadError::Invalid("the fields of a document are not those of JSON".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> BlockFields {
        let mut block = BlockFields::default();
        let record = format!(r#"{{"id": "a", "year": 2020, "body": "{}"}}"#, "x".repeat(2000));
        block.set(1, Fields::of_record(record.as_bytes()).as_ref());
        block.set(6, Fields::of_record(br#"{"id": "b", "lang": ["en", "de"]}"#).as_ref());
        block
    }

    #[test]
    fn a_value_comes_back_and_is_as_long_as_many_others() {
        let block = sample();
        let value = block.encode().unwrap();
        assert_eq!(value.len(), PADDING);
        assert!(BlockFields::decode(&value, 8).unwrap() == block);
        let fields = block.of(1).unwrap().unwrap();
        assert_eq!(
            (fields.kept["year"].clone(), fields.long),
            (2020.into(), vec!["body".to_owned()])
        );
        assert!(BlockFields::default().encode().is_none());
    }

    #[test]
    fn every_cut_and_other_places_are_refused() {
        let value = sample().encode().unwrap();
        for length in 0..value.len() {
            assert!(BlockFields::decode(&value[..length], 8).is_err(), "{length}");
        }
        assert!(BlockFields::decode(&value, 6).is_err(), "a place beyond the block");
        let mut longer = value.to_vec();
        longer.resize(2 * PADDING, 0);
        assert!(BlockFields::decode(&longer, 8).is_err(), "more padding than there is");
        for at in [0, 2, 9, 10, 17, value.len() - 1] {
            let mut other = value.to_vec();
            other[at] ^= 0x81;
            assert!(BlockFields::decode(&other, 8).is_err(), "byte {at}");
        }
    }
}
