//! A new connection on a port that asks its clients who they are: frames are read one after the other
//! until the client has proven it, with less room and less time than later.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::ApiKey;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

use super::conversation::{Conversation, Framing, Input, Output};
use super::hearing::{self, AuthenticationError, Proof, Reply, Verdict, input, new_nonce, step};
use super::session::Session;
use crate::api::{self, Answer, Api, Body, RequestError};
use crate::authorize::Principal;
use crate::connection::{ConnectionError, Served, find};
use crate::context::{Connection, Context, Ends, Gateway};
use crate::frame::{FrameError, FrameLimits, RequestHead, read_frame, read_length, take_client_id};
use crate::listener::{Authentication, ListenerSettings, SaslMechanism};
use crate::memory::Memory;

/// A longer frame of somebody who is not known closes the connection.
const FRAME_BYTES_MAX: usize = 512 * 1024;

/// What is known of a client when it has connected.
pub(crate) struct Arrival {
    pub(crate) ends: Ends,
    pub(crate) listener: Arc<ListenerSettings>,
    /// Who it is by its certificate.
    pub(crate) certificate: Option<Principal>,
}

/// A client that was let in.
pub(crate) struct Admitted {
    pub(crate) connection: Connection,
    pub(crate) session: Session,
    /// A frame that was read and is still to be served.
    pub(crate) unserved: Option<(Bytes, Memory)>,
}

impl Arrival {
    fn admit(self, principal: Principal, session: Session) -> Admitted {
        let connection = Connection::new(principal, self.ends, self.listener);
        Admitted { connection, session, unserved: None }
    }
}

/// Finds out who a client is. `None`: it has gone, or the gateway drains.
pub(crate) async fn admit<R, W>(
    gateway: &Arc<Gateway>,
    arrival: Arrival,
    reading: &mut R,
    writing: &mut W,
) -> Result<Option<Admitted>, ConnectionError>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let offered = match &arrival.listener.authentication {
        Authentication::None => {
            let principal = arrival.certificate.clone().unwrap_or_else(Principal::anonymous);
            return Ok(Some(arrival.admit(principal, Session::without_proof())));
        }
        Authentication::Sasl(mechanisms) => mechanisms.clone(),
    };
    let timeout = gateway.settings.authentication_timeout;
    let stranger = Stranger::new(gateway, &arrival, offered);
    tokio::select! {
        entered = stranger.attend(reading, writing) => match entered? {
            Some(entered) => Ok(Some(entered.admit(gateway, arrival))),
            None => Ok(None),
        },
        () = gateway.clock().sleep(timeout) => Err(AuthenticationError::Timeout(timeout).into()),
        () = gateway.drained() => Ok(None),
    }
}

/// How a client came in.
enum Entered {
    Proven(Proof),
    /// By its certificate, with its first request.
    Certified(Principal, Bytes, Memory),
}

impl Entered {
    fn admit(self, gateway: &Gateway, arrival: Arrival) -> Admitted {
        match self {
            Self::Proven(proof) => {
                let principal = Principal::user(proof.user.clone());
                arrival.admit(principal, Session::begin(proof, gateway))
            }
            Self::Certified(principal, frame, memory) => Admitted {
                unserved: Some((frame, memory)),
                ..arrival.admit(principal, Session::without_proof())
            },
        }
    }
}

/// Somebody who is not known so far.
struct Stranger<'a> {
    gateway: &'a Arc<Gateway>,
    connection: Arc<Connection>,
    certificate: Option<Principal>,
    conversation: Conversation,
}

/// What is sent to a client, and how it goes on.
struct Response {
    frame: Body,
    verdict: Verdict,
}

/// A request by its head; `body` begins behind the header.
struct Request {
    head: RequestHead,
    api: &'static Api,
    served: Served,
    body: Bytes,
}

impl<'a> Stranger<'a> {
    fn new(gateway: &'a Arc<Gateway>, arrival: &Arrival, offered: Vec<SaslMechanism>) -> Self {
        let connection = Connection::new(Principal::anonymous(), arrival.ends, arrival.listener.clone());
        Self {
            gateway,
            connection: Arc::new(connection),
            certificate: arrival.certificate.clone(),
            conversation: Conversation::new(offered, new_nonce(gateway)),
        }
    }

    /// Hears the client until it has come in. `None`: it has gone.
    async fn attend<R, W>(
        mut self,
        reading: &mut R,
        writing: &mut W,
    ) -> Result<Option<Entered>, ConnectionError>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        while let Some((frame, memory)) = self.read(reading).await? {
            let response = if self.conversation.awaits_raw_token() {
                self.hear_token(frame).await
            } else {
                let request = open(frame.clone())?;
                if let Some(principal) = self.certified(request.api) {
                    return Ok(Some(Entered::Certified(principal, frame, memory)));
                }
                self.hear(request).await?
            };
            if let Some(proof) = self.send(response, writing).await? {
                return Ok(Some(Entered::Proven(proof)));
            }
        }
        Ok(None)
    }

    async fn read<R>(&self, reading: &mut R) -> Result<Option<(Bytes, Memory)>, FrameError>
    where
        R: AsyncRead + Unpin,
    {
        let settings = &self.gateway.settings;
        let bytes_max = settings.frame_bytes_max.min(FRAME_BYTES_MAX);
        let limits = FrameLimits { bytes_max, stall_timeout: settings.stall_timeout };
        let Some(length) = read_length(reading, limits).await? else { return Ok(None) };
        let mut memory = self.gateway.request_memory.empty();
        let frame = read_frame(reading, length, limits, &mut memory).await?;
        Ok(Some((frame, memory)))
    }

    /// Who the client is by its certificate, if it wants to do with that: it asks for something else
    /// than to prove who it is.
    fn certified(&self, api: &Api) -> Option<Principal> {
        let proves = [ApiKey::ApiVersions, ApiKey::SaslHandshake, ApiKey::SaslAuthenticate];
        let is_other = self.conversation.awaits_handshake() && !proves.contains(&api.key);
        self.certificate.clone().filter(|_| is_other)
    }

    /// Takes a token that has no request around it.
    async fn hear_token(&mut self, token: Bytes) -> Response {
        let input = Input::Token { framing: Framing::Raw, token };
        match step(self.gateway, &mut self.conversation, input).await {
            Output::Challenge(token) => Response { frame: framed(&token), verdict: Verdict::Open },
            Output::Proven { user, mechanism, token } => {
                Response { frame: framed(&token), verdict: hearing::proven(user, mechanism) }
            }
            Output::Deny(denial) => Response { frame: Body::default(), verdict: hearing::denied(denial) },
            _ => unreachable!("a token is answered with a token or denied"),
        }
    }

    async fn hear(&mut self, request: Request) -> Result<Response, ConnectionError> {
        let Request { head, api, served, body } = request;
        let version = head.api_version;
        let context = Context::new(self.gateway.clone(), self.connection.clone(), version);
        let failed = |error| ConnectionError::Request { api: api.name, version, error };
        let input = input(api, version, body.clone()).map_err(failed)?;
        let output = step(self.gateway, &mut self.conversation, input).await;
        let reply = match output {
            Output::AnswerApiVersions => {
                let answer = answer_api_versions(&context, (api, served), body).await;
                Reply { answer: Some(answer.map_err(failed)?), verdict: Verdict::Open }
            }
            output => {
                hearing::reply(&context, api.name, self.conversation.offered(), output).map_err(failed)?
            }
        };
        let body = reply.answer.and_then(|answer| answer.body).map(|body| {
            let bytes = body.size_bytes();
            let frame = body.into_frame(head.correlation_id, api.answer_header_encoding(version));
            frame.ok_or(ConnectionError::AnswerTooLarge { api: api.name, bytes })
        });
        Ok(Response { frame: body.transpose()?.unwrap_or_default(), verdict: reply.verdict })
    }

    /// Sends a response, and gives who the client has proven to be with it.
    async fn send<W>(&self, response: Response, writing: &mut W) -> Result<Option<Proof>, ConnectionError>
    where
        W: AsyncWrite + Unpin,
    {
        let Response { mut frame, verdict } = response;
        if let Verdict::Failed(_) = &verdict {
            self.gateway.clock().sleep(self.gateway.settings.failed_authentication_delay).await;
        }
        writing.write_all_buf(&mut frame).await.map_err(ConnectionError::Write)?;
        writing.flush().await.map_err(ConnectionError::Write)?;
        match verdict {
            Verdict::Open => Ok(None),
            Verdict::Proven(proof) => Ok(Some(proof)),
            Verdict::Failed(error) => {
                // The client reads the answer before it sees the end.
                writing.shutdown().await.map_err(ConnectionError::Write)?;
                Err(error.into())
            }
        }
    }
}

fn open(mut frame: Bytes) -> Result<Request, ConnectionError> {
    let head = RequestHead::take_from(&mut frame).map_err(ConnectionError::Head)?;
    let (api, served) = find(&head)?;
    if let Served::Yes = served {
        let encoding = api.request_encoding(head.api_version);
        take_client_id(&mut frame, encoding).map_err(ConnectionError::Head)?;
    }
    Ok(Request { head, api, served, body: frame })
}

async fn answer_api_versions(
    context: &Context,
    (api, served): (&Api, Served),
    body: Bytes,
) -> Result<Answer, RequestError> {
    match served {
        Served::Yes => {
            // A request of a stranger is small, and so is what is decoded of it.
            api.check(context.version, &body)?;
            (api.begin)(context.clone(), body).await?.await
        }
        Served::VersionTooHigh => api::unsupported_version_answer(context),
    }
}

/// A token with its length before it.
fn framed(token: &[u8]) -> Body {
    let mut frame = BytesMut::with_capacity(size_of::<u32>() + token.len());
    frame.put_u32(u32::try_from(token.len()).expect("a token of a server is short"));
    frame.put_slice(token);
    let mut body = Body::default();
    body.push(frame.freeze());
    body
}
