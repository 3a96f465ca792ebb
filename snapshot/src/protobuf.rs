//! Just enough of the protobuf wire format to walk over the fields of a message.
//!
//! Invariant: total over bytes; a length is checked against what is left before it is used. Unknown fields are skipped,
//! as etcd's own decoder does, so that a newer etcd's additions do not look like damage.

/// The value of one field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    /// Fixed-width numbers: skipped, etcd's messages have none.
    Fixed,
}

/// The bytes are no protobuf message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// Goes over the fields of a message in the order in which they lie.
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(crate) fn of(message: &'a [u8]) -> Self {
        Fields { rest: message }
    }

    fn take(&mut self, bytes: u64) -> Result<&'a [u8], Malformed> {
        let bytes = usize::try_from(bytes).map_err(|_| Malformed)?;
        let (taken, rest) = self.rest.split_at_checked(bytes).ok_or(Malformed)?;
        self.rest = rest;
        Ok(taken)
    }

    fn number(&mut self) -> Result<u64, Malformed> {
        let mut number = 0;
        for shift in (0..70).step_by(7) {
            let (byte, rest) = self.rest.split_first().ok_or(Malformed)?;
            self.rest = rest;
            // The tenth byte has room for one bit; decoders drop the others.
            number |= u64::from(byte & 0x7F).wrapping_shl(shift);
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Malformed)
    }

    fn field(&mut self) -> Result<(u64, Value<'a>), Malformed> {
        let tag = self.number()?;
        let value = match tag & 7 {
            0 => Value::Number(self.number()?),
            1 => self.take(8).map(|_| Value::Fixed)?,
            2 => {
                let bytes = self.number()?;
                Value::Bytes(self.take(bytes)?)
            }
            5 => self.take(4).map(|_| Value::Fixed)?,
            _ => return Err(Malformed),
        };
        Ok((tag >> 3, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Value<'a>), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_in_the_order_of_the_message() {
        let message = [0x0A, 2, b'h', b'i', 0x10, 0x96, 0x01, 0x1D, 1, 2, 3, 4];
        let fields: Result<Vec<_>, _> = Fields::of(&message).collect();
        assert_eq!(fields.unwrap(), [(1, Value::Bytes(b"hi")), (2, Value::Number(150)), (3, Value::Fixed)]);
    }

    #[test]
    fn what_is_cut_or_unending_is_malformed() {
        for message in [&[0x0A, 3, 1][..], &[0x08], &[0x08, 0xFF], &[0xFF; 11], &[0x0B], &[0x09, 1]] {
            assert!(Fields::of(message).any(|field| field.is_err()), "{message:?}");
        }
    }
}
