//! Object identifiers of relations. Pure.
//!
//! Invariant: an identifier depends on the relation's name alone, so it is the same on every
//! connection and after every restart. Two names may, rarely, share one.

use strandline_sql::FIRST_USER_OID;

/// The identifier of a relation.
pub fn relation_oid(schema: &str, name: &str) -> u32 {
    let hash = schema
        .bytes()
        .chain([0])
        .chain(name.bytes())
        .fold(FNV_OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME));
    // Clients read identifiers as signed numbers too, so they stay below 2^31.
    let span = u64::from(i32::MAX.unsigned_abs() - FIRST_USER_OID);
    FIRST_USER_OID + u32::try_from(hash % span).expect("the span fits 32 bits")
}

/// The constants of the 64-bit FNV-1a hash.
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_follow_from_names_and_stay_in_their_range() {
        let oid = relation_oid("public", "wikiticker");
        assert_eq!(oid, relation_oid("public", "wikiticker"));
        assert_ne!(oid, relation_oid("internal", "wikiticker"));
        assert_ne!(relation_oid("a", "bc"), relation_oid("ab", "c"));
        for index in 0..1_000 {
            let oid = relation_oid("public", &index.to_string());
            assert!((FIRST_USER_OID..i32::MAX.unsigned_abs()).contains(&oid));
        }
    }
}
