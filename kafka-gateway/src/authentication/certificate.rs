//! The name of a client by its certificate: the subject as RFC 2253 writes it, in the form of Java's
//! `X500Principal.getName()`, which Kafka's rules are written in. Pure.
//!
//! - The parts of the name stand in reverse of their order in the certificate, without spaces.
//! - The attributes of RFC 2253 have their keywords; others are written as their number, with the DER
//!   of the value in hexadecimal.

use std::fmt::Write;

use thiserror::Error;
use x509_cert::Certificate;
use x509_cert::attr::AttributeTypeAndValue;
use x509_cert::der::asn1::{Any, ObjectIdentifier};
use x509_cert::der::{Decode, Encode, Tag, Tagged};

/// The keywords of RFC 2253, section 2.3.
const KEYWORDS: [(&str, &str); 9] = [
    ("2.5.4.3", "CN"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("2.5.4.6", "C"),
    ("2.5.4.9", "STREET"),
    ("0.9.2342.19200300.100.1.25", "DC"),
    ("0.9.2342.19200300.100.1.1", "UID"),
];
/// These have a backslash before them.
const ESCAPED: &str = ",=+<>#;\"\\";

/// Why a certificate has no name.
#[derive(Debug, Error)]
pub(crate) enum CertificateError {
    #[error("it is not an X.509 certificate: {0}")]
    Malformed(#[from] x509_cert::der::Error),
}

/// The subject of a certificate.
pub(crate) fn subject_name(certificate: &[u8]) -> Result<String, CertificateError> {
    let subject = Certificate::from_der(certificate)?.tbs_certificate.subject;
    let mut name = String::new();
    for relative_name in subject.0.iter().rev() {
        for (place, attribute) in relative_name.0.iter().enumerate() {
            if !name.is_empty() {
                name.push(if place == 0 { ',' } else { '+' });
            }
            push_attribute(&mut name, attribute)?;
        }
    }
    Ok(name)
}

fn push_attribute(name: &mut String, attribute: &AttributeTypeAndValue) -> Result<(), CertificateError> {
    let text = keyword(&attribute.oid).zip(text_of(&attribute.value));
    match text {
        Some((keyword, text)) => {
            name.push_str(keyword);
            name.push('=');
            push_escaped(name, &text);
        }
        None => {
            name.push_str(keyword(&attribute.oid).unwrap_or(&attribute.oid.to_string()));
            name.push_str("=#");
            for byte in attribute.value.to_der()? {
                write!(name, "{byte:02x}").expect("a String takes all that is written to it");
            }
        }
    }
    Ok(())
}

fn keyword(oid: &ObjectIdentifier) -> Option<&'static str> {
    let number = oid.to_string();
    KEYWORDS.iter().find(|(known, _)| *known == number).map(|(_, keyword)| *keyword)
}

/// The text of a value that is one.
fn text_of(value: &Any) -> Option<String> {
    let bytes = value.value();
    match value.tag() {
        Tag::Utf8String | Tag::PrintableString | Tag::Ia5String => {
            Some(String::from_utf8_lossy(bytes).into_owned())
        }
        Tag::TeletexString => Some(bytes.iter().copied().map(char::from).collect()),
        Tag::BmpString => {
            let units = bytes.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
            Some(char::decode_utf16(units).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)).collect())
        }
        _ => None,
    }
}

/// A space is escaped at both ends, where it would be lost.
fn push_escaped(name: &mut String, text: &str) {
    let first = text.len() - text.trim_start_matches([' ', '\r']).len();
    let last = text.trim_end_matches([' ', '\r']).len();
    for (position, character) in text.char_indices() {
        let is_outer = position < first || position >= last;
        match character {
            '\0' => name.push_str("\\00"),
            _ => {
                if is_outer || ESCAPED.contains(character) {
                    name.push('\\');
                }
                name.push(character);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DistinguishedName, DnType, DnValue, KeyPair};

    use super::*;

    fn name_of(parts: &[(DnType, DnValue)]) -> String {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        for (kind, value) in parts {
            params.distinguished_name.push(kind.clone(), value.clone());
        }
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        subject_name(certificate.der()).unwrap()
    }

    fn text(text: &str) -> DnValue {
        DnValue::from(text)
    }

    /// The expected names are what Java 17 prints.
    #[test]
    fn names_are_those_of_java() {
        let usual = [
            (DnType::CountryName, DnValue::PrintableString("DE".try_into().unwrap())),
            (DnType::StateOrProvinceName, text("Bavaria")),
            (DnType::LocalityName, text("Munich")),
            (DnType::OrganizationName, text("Example, Inc.")),
            (DnType::OrganizationalUnitName, text("a=b+c")),
            (DnType::CommonName, text("app")),
        ];
        assert_eq!(name_of(&usual), r"CN=app,OU=a\=b\+c,O=Example\, Inc.,L=Munich,ST=Bavaria,C=DE");
        assert_eq!(name_of(&[(DnType::CommonName, text("app"))]), "CN=app");
        assert_eq!(name_of(&[]), "");
    }

    #[test]
    fn characters_with_a_meaning_are_escaped() {
        let cn = |value| name_of(&[(DnType::CommonName, value)]);
        assert_eq!(cn(text(" a  b ")), r"CN=\ a  b\ ");
        assert_eq!(cn(text("#a#;<>\"\\")), r#"CN=\#a\#\;\<\>\"\\"#);
        assert_eq!(cn(text("jörg 漢")), "CN=jörg 漢");
        // Java prints the single bytes of this one.
        assert_eq!(cn(DnValue::BmpString("jörg".try_into().unwrap())), "CN=jörg");
        assert_eq!(cn(DnValue::Ia5String("a@b".try_into().unwrap())), "CN=a@b");
    }

    #[test]
    fn attributes_without_a_keyword_are_their_number_and_bytes() {
        let email = DnType::CustomDnType(vec![1, 2, 840, 113549, 1, 9, 1]);
        let user = DnType::CustomDnType(vec![0, 9, 2342, 19200300, 100, 1, 1]);
        let component = DnType::CustomDnType(vec![0, 9, 2342, 19200300, 100, 1, 25]);
        let parts = [
            (component, DnValue::Ia5String("example".try_into().unwrap())),
            (user, text("u1")),
            (email, DnValue::Ia5String("a@b".try_into().unwrap())),
        ];
        assert_eq!(name_of(&parts), "1.2.840.113549.1.9.1=#1603614062,UID=u1,DC=example");
    }

    #[test]
    fn bytes_that_are_no_certificate_are_refused() {
        for bytes in [&b""[..], &[0x30, 0x80], &[0x30, 0x03, 1, 1, 1]] {
            assert!(subject_name(bytes).is_err());
        }
    }
}
