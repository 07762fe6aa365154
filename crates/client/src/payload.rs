//! Reading and writing the contents of a vault's values: little-endian fields under a version.

/// Why the contents of a file make no sense, although its checksum and seal are sound.
#[derive(Debug, thiserror::Error, PartialEq, Eq, Clone)]
pub enum PayloadError {
    /// Ends early.
    #[error("it ends early")]
    Truncated,
    /// Goes on after its end.
    #[error("{0} bytes follow its end")]
    Trailing(usize),
    /// Written by another version.
    #[error(
        "it has version {actual} and this program reads version {expected}: use the program that \
         wrote it, or make a new vault and ingest the documents again"
    )]
    Version {
        /// Version found.
        actual: u16,
        /// Version read.
        expected: u16,
    },
    /// Fields that contradict each other.
    #[error("{0}")]
    Invalid(String),
}

/// Appends fields.
#[derive(Default)]
pub(crate) struct Writer {
    pub(crate) bytes: Vec<u8>,
}

impl Writer {
    pub(crate) fn new(version: u16) -> Self {
        Self { bytes: version.to_le_bytes().to_vec() }
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn f64(&mut self, value: f64) {
        self.u64(value.to_bits());
    }

    pub(crate) fn string(&mut self, text: &str) {
        self.u64(text.len() as u64);
        self.bytes.extend_from_slice(text.as_bytes());
    }

    pub(crate) fn f64s(&mut self, values: &[f64]) {
        self.u64(values.len() as u64);
        values.iter().for_each(|v| self.f64(*v));
    }

    pub(crate) fn f32s(&mut self, values: &[f32]) {
        self.u64(values.len() as u64);
        self.bytes.reserve(values.len() * 4);
        values.iter().for_each(|v| self.bytes.extend_from_slice(&v.to_le_bytes()));
    }

    pub(crate) fn u32s(&mut self, values: &[u32]) {
        self.u64(values.len() as u64);
        values.iter().for_each(|v| self.bytes.extend_from_slice(&v.to_le_bytes()));
    }

    pub(crate) fn u64s(&mut self, values: impl ExactSizeIterator<Item = u64>) {
        self.u64(values.len() as u64);
        values.for_each(|v| self.u64(v));
    }
}

/// Takes fields.
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8], expected: u16) -> Result<Self, PayloadError> {
        let mut reader = Self { rest: bytes };
        let actual = u16::from_le_bytes(reader.array()?);
        if actual != expected {
            return Err(PayloadError::Version { actual, expected });
        }
        Ok(reader)
    }

    /// The same for a value that has either of two versions, and which it is.
    pub(crate) fn of_either(
        bytes: &'a [u8],
        versions: [u16; 2],
    ) -> Result<(Self, u16), PayloadError> {
        let mut reader = Self { rest: bytes };
        let actual = u16::from_le_bytes(reader.array()?);
        if !versions.contains(&actual) {
            return Err(PayloadError::Version { actual, expected: versions[1] });
        }
        Ok((reader, actual))
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], PayloadError> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(PayloadError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    pub(crate) fn array<const L: usize>(&mut self) -> Result<[u8; L], PayloadError> {
        Ok(self.take(L)?.try_into().expect("exactly L bytes were taken"))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, PayloadError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(crate) fn size(&mut self) -> Result<usize, PayloadError> {
        usize::try_from(self.u64()?).map_err(|_| PayloadError::Truncated)
    }

    pub(crate) fn f64(&mut self) -> Result<f64, PayloadError> {
        Ok(f64::from_bits(self.u64()?))
    }

    /// A counted run of fields of `L` bytes, taken whole before anything is reserved.
    fn fields<const L: usize>(
        &mut self,
    ) -> Result<impl Iterator<Item = [u8; L]> + 'a, PayloadError> {
        let count = self.size()?;
        let bytes = self.take(count.checked_mul(L).ok_or(PayloadError::Truncated)?)?;
        Ok(bytes.chunks_exact(L).map(|field| field.try_into().expect("chunks of L bytes")))
    }

    pub(crate) fn string(&mut self) -> Result<String, PayloadError> {
        let length = self.size()?;
        let bytes = self.take(length)?.to_vec();
        String::from_utf8(bytes).map_err(|_| PayloadError::Invalid("a text is not UTF-8".into()))
    }

    pub(crate) fn f64s(&mut self) -> Result<Vec<f64>, PayloadError> {
        Ok(self.fields()?.map(f64::from_le_bytes).collect())
    }

    pub(crate) fn f32s(&mut self) -> Result<Vec<f32>, PayloadError> {
        Ok(self.fields()?.map(f32::from_le_bytes).collect())
    }

    pub(crate) fn u32s(&mut self) -> Result<Vec<u32>, PayloadError> {
        Ok(self.fields()?.map(u32::from_le_bytes).collect())
    }

    pub(crate) fn u64s(&mut self) -> Result<Vec<u64>, PayloadError> {
        Ok(self.fields()?.map(u64::from_le_bytes).collect())
    }

    /// Everything that is left.
    pub(crate) fn rest(self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn finish(self) -> Result<(), PayloadError> {
        if self.rest.is_empty() { Ok(()) } else { Err(PayloadError::Trailing(self.rest.len())) }
    }
}
