//! The two messages of a client (RFC 5802, section 7), from their bytes.

use super::ScramError;

/// `gs2-header client-first-message-bare`
pub(super) struct ClientFirstMessage<'a> {
    /// With its last comma, as it is bound in the last message.
    pub(super) gs2_header: &'a str,
    pub(super) bare: &'a str,
    /// Whom the client wants to act for; empty if it did not say.
    pub(super) authzid: String,
    pub(super) user: String,
    pub(super) nonce: &'a str,
}

/// `channel-binding "," nonce ["," extensions] "," proof`
pub(super) struct ClientFinalMessage<'a> {
    /// In base64, as it came.
    pub(super) channel_binding: &'a str,
    pub(super) nonce: &'a str,
    /// In base64, as it came.
    pub(super) proof: &'a str,
    pub(super) without_proof: &'a str,
}

pub(super) fn parse_client_first(bytes: &[u8]) -> Result<ClientFirstMessage<'_>, ScramError> {
    let message = text(bytes)?;
    let (flag, rest) = message.split_once(',').ok_or(malformed("there is no GS2 header"))?;
    match flag {
        // `y`: the client could bind to a channel and thinks that the server cannot, which is so.
        "n" | "y" => {}
        _ if flag.starts_with("p=") => return Err(ScramError::ChannelBinding),
        _ => return Err(malformed("the channel binding flag is none of n, y and p")),
    }
    let (authzid, bare) = rest.split_once(',').ok_or(malformed("the GS2 header has no end"))?;
    let authzid = match authzid {
        "" => String::new(),
        _ => name_of(attribute(authzid, "a=").ok_or(malformed("the GS2 header has another attribute"))?)?,
    };
    let mut attributes = bare.split(',');
    let user = attributes.next().unwrap_or_default();
    if user.starts_with("m=") {
        return Err(ScramError::MandatoryExtension);
    }
    let user = attribute(user, "n=").ok_or(malformed("the user name is missing"))?;
    let nonce = attributes.next().and_then(|nonce| attribute(nonce, "r="));
    Ok(ClientFirstMessage {
        gs2_header: &message[..message.len() - bare.len()],
        bare,
        authzid,
        user: name_of(user)?,
        nonce: nonce_of(nonce)?,
    })
}

pub(super) fn parse_client_final(bytes: &[u8]) -> Result<ClientFinalMessage<'_>, ScramError> {
    let message = text(bytes)?;
    let (without_proof, proof) = message.rsplit_once(',').ok_or(malformed("the proof is missing"))?;
    let proof = attribute(proof, "p=").ok_or(malformed("the proof is missing"))?;
    let mut attributes = without_proof.split(',');
    let channel_binding = attributes.next().and_then(|binding| attribute(binding, "c="));
    let channel_binding = channel_binding.ok_or(malformed("the channel binding data is missing"))?;
    let nonce = nonce_of(attributes.next().and_then(|nonce| attribute(nonce, "r=")))?;
    if attributes.any(|extension| extension.starts_with("m=")) {
        return Err(ScramError::MandatoryExtension);
    }
    Ok(ClientFinalMessage { channel_binding, nonce, proof, without_proof })
}

fn malformed(reason: &'static str) -> ScramError {
    ScramError::Malformed { reason }
}

fn text(bytes: &[u8]) -> Result<&str, ScramError> {
    std::str::from_utf8(bytes).map_err(|_| malformed("it is not UTF-8"))
}

fn attribute<'a>(attribute: &'a str, name: &str) -> Option<&'a str> {
    attribute.strip_prefix(name)
}

fn nonce_of(nonce: Option<&str>) -> Result<&str, ScramError> {
    match nonce {
        Some(nonce) if !nonce.is_empty() && nonce.bytes().all(|byte| byte.is_ascii_graphic()) => Ok(nonce),
        _ => Err(malformed("the nonce is missing or not printable")),
    }
}

/// A name in which `,` and `=` are written as `=2C` and `=3D`.
fn name_of(escaped: &str) -> Result<String, ScramError> {
    let mut parts = escaped.split('=');
    let mut name = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (character, rest) = match (part.strip_prefix("2C"), part.strip_prefix("3D")) {
            (Some(rest), _) => (',', rest),
            (_, Some(rest)) => ('=', rest),
            _ => return Err(malformed("a name has = without 2C or 3D after it")),
        };
        name.push(character);
        name.push_str(rest);
    }
    Ok(name)
}
