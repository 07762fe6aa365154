//! A document as text.

use serde_json::{Map, Value};

use crate::Record;

/// A document or query as text.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TextDocument {
    /// Its id.
    pub id: String,
    /// Its title, if it has one.
    pub title: Option<String>,
    /// Its body.
    pub text: String,
    /// All other fields.
    pub fields: Map<String, Value>,
}

impl TextDocument {
    /// The title and the body as one, as encoders are given them.
    pub fn with_title(&self) -> String {
        match self.title.as_deref() {
            Some(title) => format!("{title} {}", self.text).trim().to_owned(),
            None => self.text.trim().to_owned(),
        }
    }

    /// The record that brings it back: all of it, as JSON.
    pub fn record(&self) -> Record {
        let mut all = self.fields.clone();
        all.insert("id".to_owned(), self.id.clone().into());
        if let Some(title) = &self.title {
            all.insert("title".to_owned(), title.clone().into());
        }
        all.insert("text".to_owned(), self.text.clone().into());
        Record { id: self.id.clone(), bytes: Value::Object(all).to_string().into_bytes() }
    }
}

/// A document from the fields of a record without its id: the text, the title, and all others.
///
/// # Errors
/// Words for what is wrong: there is no text, or text or title are something else.
pub(in crate::input) fn document_of(
    id: String,
    mut fields: Map<String, Value>,
) -> Result<TextDocument, String> {
    let mut text_of = |name: &str| match fields.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(format!("expected a text as `{name}`")),
    };
    let text = text_of("text")?.ok_or("missing field `text`")?;
    let title = text_of("title")?.filter(|title| !title.trim().is_empty());
    Ok(TextDocument { id, title, text, fields })
}
