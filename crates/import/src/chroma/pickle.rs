//! The few opcodes of Python's pickle that Chroma's `index_metadata.pickle` is made of.
//!
//! Nothing is ever executed: a class is taken as the dictionary of its state, whatever its name, and every
//! other opcode is refused. Versions of Chroma before 1.0 pickle an object, later ones a dictionary; both have
//! `id_to_label`, and the former `max_seq_id`.

use std::collections::HashMap;
use std::rc::Rc;

use crate::bytes::{Malformed, Parsed};

/// What the pickle says.
pub(super) struct Names {
    /// The label of each id.
    pub(super) labels: HashMap<String, u64>,
    /// `max_seq_id`, where there is one.
    pub(super) reached: Option<i64>,
}

#[derive(Clone, Debug)]
enum Item {
    None,
    Number(i64),
    /// Shared: what is recalled is not copied.
    Text(Rc<str>),
    /// A dictionary, by its place among all of them: it may be filled after it was put somewhere.
    Dictionary(usize),
    /// What only ever makes an object: a class or empty arguments.
    Class,
    /// An object, which is the dictionary of its state once it has one.
    Object,
    Mark,
}

#[derive(Default)]
struct Machine<'a> {
    bytes: &'a [u8],
    at: usize,
    stack: Vec<Item>,
    memory: HashMap<u32, Item>,
    dictionaries: Vec<Vec<(Item, Item)>>,
}

/// Reads the names of labels.
pub(super) fn names(bytes: &[u8]) -> Parsed<Names> {
    let mut machine = Machine { bytes, ..Machine::default() };
    let Item::Dictionary(root) = machine.run()? else {
        return Err(Malformed::new("a pickle that holds no dictionary"));
    };
    let field = |name: &str| {
        let entries = machine.dictionaries[root].iter();
        entries
            .rev()
            .find(|(key, _)| matches!(key, Item::Text(text) if &**text == name))
            .map(|(_, v)| v)
    };
    let reached = match field("max_seq_id") {
        Some(&Item::Number(number)) => Some(number),
        _ => None,
    };
    let Some(&Item::Dictionary(labels)) = field("id_to_label") else {
        return Err(Malformed::new("a pickle without id_to_label"));
    };
    let label = |(id, label): &(Item, Item)| match (id, label) {
        (Item::Text(id), &Item::Number(label)) => {
            u64::try_from(label).ok().map(|label| (id.to_string(), label))
        }
        _ => None,
    };
    let labels: Option<HashMap<_, _>> = machine.dictionaries[labels].iter().map(label).collect();
    let labels =
        labels.ok_or_else(|| Malformed::new("id_to_label holds something else than labels"))?;
    Ok(Names { labels, reached })
}

impl Machine<'_> {
    fn run(&mut self) -> Parsed<Item> {
        loop {
            let opcode = self.take(1)?[0];
            match opcode {
                b'.' => return self.pop(),
                0x80 => _ = self.take(1)?,            // PROTO
                0x95 => _ = self.take(8)?,            // FRAME
                b'(' => self.stack.push(Item::Mark),  // MARK
                b'N' => self.stack.push(Item::None),  // NONE
                b')' => self.stack.push(Item::Class), // EMPTY_TUPLE
                b'}' => {
                    self.stack.push(Item::Dictionary(self.dictionaries.len())); // EMPTY_DICT
                    self.dictionaries.push(Vec::new());
                }
                b'K' => self.number(1)?, // BININT1
                b'M' => self.number(2)?, // BININT2
                b'J' => {
                    let bytes = self.take(4)?.try_into().expect("four bytes are taken");
                    self.stack.push(Item::Number(i32::from_le_bytes(bytes).into())); // BININT
                }
                0x8a => self.long()?,                            // LONG1
                0x8c => self.text(1)?,                           // SHORT_BINUNICODE
                b'X' => self.text(4)?,                           // BINUNICODE
                0x94 => self.memoize(self.memory.len() as u32)?, // MEMOIZE
                b'q' => {
                    let place = self.length(1)?; // BINPUT
                    self.memoize(place as u32)?;
                }
                b'r' => {
                    let place = self.length(4)?; // LONG_BINPUT
                    self.memoize(place as u32)?;
                }
                b'h' => self.recall(1)?, // BINGET
                b'j' => self.recall(4)?, // LONG_BINGET
                b'c' => {
                    self.line()?; // GLOBAL
                    self.line()?;
                    self.stack.push(Item::Class);
                }
                0x93 => {
                    self.pop()?; // STACK_GLOBAL
                    self.pop()?;
                    self.stack.push(Item::Class);
                }
                0x81 => {
                    self.pop()?; // NEWOBJ
                    self.pop()?;
                    self.stack.push(Item::Object);
                }
                b's' => {
                    let (value, key) = (self.pop()?, self.pop()?); // SETITEM
                    self.set(vec![(key, value)])?;
                }
                b'u' => self.set_items()?, // SETITEMS
                b'b' => {
                    let state = self.pop()?; // BUILD
                    if !matches!(self.pop()?, Item::Object) {
                        return Err(Malformed::new(
                            "a pickle that gives a state to something else than an object",
                        ));
                    }
                    self.stack.push(state);
                }
                other => {
                    return Err(Malformed(format!(
                        "a pickle with the opcode 0x{other:02x}, which is not read"
                    )));
                }
            }
        }
    }

    fn take(&mut self, count: usize) -> Parsed<&[u8]> {
        let taken = self.bytes.get(self.at..).and_then(|rest| rest.get(..count));
        self.at += taken.map_or(0, <[u8]>::len);
        taken.ok_or_else(|| Malformed::new("a pickle that ends too early"))
    }

    fn line(&mut self) -> Parsed<()> {
        while self.take(1)?[0] != b'\n' {}
        Ok(())
    }

    fn length(&mut self, width: usize) -> Parsed<usize> {
        Ok(self.take(width)?.iter().rev().fold(0, |number, &byte| number << 8 | usize::from(byte)))
    }

    fn number(&mut self, width: usize) -> Parsed<()> {
        let number = self.length(width)? as i64;
        self.stack.push(Item::Number(number));
        Ok(())
    }

    /// A signed integer of up to eight bytes.
    fn long(&mut self) -> Parsed<()> {
        let width = self.length(1)?;
        if width > 8 {
            return Err(Malformed::new("a number of more than eight bytes"));
        }
        let bytes = self.take(width)?;
        let fill = if bytes.last().is_some_and(|byte| byte & 0x80 != 0) { 0xff } else { 0 };
        let mut whole = [fill; 8];
        whole[..width].copy_from_slice(bytes);
        self.stack.push(Item::Number(i64::from_le_bytes(whole)));
        Ok(())
    }

    fn text(&mut self, width: usize) -> Parsed<()> {
        let length = self.length(width)?;
        let text = str::from_utf8(self.take(length)?);
        let text = text.map_err(|_| Malformed::new("text that is not UTF-8"))?.to_owned();
        self.stack.push(Item::Text(text.into()));
        Ok(())
    }

    fn pop(&mut self) -> Parsed<Item> {
        self.stack.pop().ok_or_else(|| Malformed::new("a pickle that takes what is not there"))
    }

    fn memoize(&mut self, place: u32) -> Parsed<()> {
        let item = self.stack.last().cloned();
        let item = item.ok_or_else(|| Malformed::new("a pickle that keeps what is not there"))?;
        self.memory.insert(place, item);
        Ok(())
    }

    fn recall(&mut self, width: usize) -> Parsed<()> {
        let place = self.length(width)? as u32;
        let item = self.memory.get(&place).cloned();
        self.stack
            .push(item.ok_or_else(|| Malformed::new("a pickle that recalls what it never kept"))?);
        Ok(())
    }

    /// Everything above the last mark, in pairs, into the dictionary below it.
    fn set_items(&mut self) -> Parsed<()> {
        let mark = self.stack.iter().rposition(|item| matches!(item, Item::Mark));
        let mark = mark.ok_or_else(|| Malformed::new("a pickle without a mark"))?;
        let mut pairs = Vec::new();
        let mut items = self.stack.drain(mark..).skip(1);
        while let Some(key) = items.next() {
            let value = items.next().ok_or_else(|| Malformed::new("a key without a value"))?;
            pairs.push((key, value));
        }
        drop(items);
        self.set(pairs)
    }

    fn set(&mut self, pairs: Vec<(Item, Item)>) -> Parsed<()> {
        match self.stack.last() {
            Some(&Item::Dictionary(place)) => {
                self.dictionaries[place].extend(pairs);
                Ok(())
            }
            _ => Err(Malformed::new("a pickle that sets items of no dictionary")),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// `{"max_seq_id": 300, "id_to_label": {"a": 1, "b": -2 or 2}}` in the opcodes of protocol 3.
    fn pickled(second: i32) -> Vec<u8> {
        let text =
            |text: &str| [&b"X"[..], &(text.len() as u32).to_le_bytes(), text.as_bytes()].concat();
        [
            &b"\x80\x03}q\x00("[..],
            &text("max_seq_id"),
            b"M\x2c\x01",
            &text("id_to_label"),
            b"}(",
            &text("a"),
            b"K\x01",
            &text("b"),
            b"J",
            &second.to_le_bytes(),
            b"uu.",
        ]
        .concat()
    }

    #[test]
    fn labels_are_read() {
        let Names { labels, reached } = names(&pickled(2)).ok().unwrap();
        assert_eq!(reached, Some(300));
        assert_eq!(labels, HashMap::from([("a".to_owned(), 1), ("b".to_owned(), 2)]));
    }

    #[test]
    fn what_runs_code_and_what_is_no_label_is_refused() {
        // cos\nsystem\n(S'true'\ntR.
        assert!(names(b"cos\nsystem\n(S'true'\ntR.").is_err());
        assert!(names(&pickled(-2)).is_err());
        assert!(names(b"\x80\x03}.").is_err());
        assert!(names(b"\x8a\x09").is_err());
    }

    proptest! {
        #[test]
        fn damaged_pickles_never_panic(at in 0_usize..90, byte: u8, cut in 0_usize..90, noise: Vec<u8>) {
            let mut bytes = pickled(2);
            let length = bytes.len();
            bytes[at % length] = byte;
            let _ = names(&bytes);
            bytes.truncate(cut % length);
            prop_assert!(names(&bytes).is_err());
            let _ = names(&noise);
        }
    }
}
