//! Black-box tests: real clients against the real binary. The tests are in `tests/it`, the scripts
//! that drive clients of other languages in `clients`.
