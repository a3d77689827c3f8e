//! Objects: the few operations that the log needs of a store.
