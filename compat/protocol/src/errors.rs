//! Why a connection's input is no request: the errors after which it is closed, and their texts.

/// Why a connection cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    /// The count behind `*` is no number or too large.
    MultibulkLength,
    /// The length behind `$` is no number, negative or too large.
    BulkLength,
    /// Where an argument should begin stands another byte.
    ExpectedDollar(u8),
    /// A line with a count is too long.
    CountTooLong,
    /// A line with a length is too long.
    LengthTooLong,
    /// An inline command is too long.
    InlineTooLong,
    /// Too many arguments before authentication.
    UnauthenticatedMultibulk,
    /// Too long an argument before authentication.
    UnauthenticatedBulk,
    /// A quote in an inline command is not closed, or something clings to its end.
    UnbalancedQuotes,
    /// The system refuses memory for the places of the request's arguments.
    NoMemory,
}

impl ProtocolError {
    /// The error reply, without the leading `-` and the line's end.
    pub fn message(&self) -> Vec<u8> {
        let what: &[u8] = match self {
            ProtocolError::MultibulkLength => b"invalid multibulk length",
            ProtocolError::BulkLength => b"invalid bulk length",
            ProtocolError::ExpectedDollar(_) => b"expected '$', got '",
            ProtocolError::CountTooLong => b"too big mbulk count string",
            ProtocolError::LengthTooLong => b"too big bulk count string",
            ProtocolError::InlineTooLong => b"too big inline request",
            ProtocolError::UnauthenticatedMultibulk => b"unauthenticated multibulk length",
            ProtocolError::UnauthenticatedBulk => b"unauthenticated bulk length",
            ProtocolError::UnbalancedQuotes => b"unbalanced quotes in request",
            ProtocolError::NoMemory => return b"OOM the system refuses memory".to_vec(),
        };
        let mut text = [b"ERR Protocol error: ", what].concat();
        if let ProtocolError::ExpectedDollar(byte) = self {
            text.extend([*byte, b'\'']);
        }
        text
    }
}
