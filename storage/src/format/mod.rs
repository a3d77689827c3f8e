//! Byte formats: bytes in, bytes out.
