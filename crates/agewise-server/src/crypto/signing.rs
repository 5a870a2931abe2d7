//! The signature of a client on a call, good once. It covers the session (a challenge that the coordinator made for
//! it), a number that grows from call to call, and every field that means something, so that a call can be neither changed nor repeated,
//! nor made in another client's name.

use super::identity::{Identity, PublicKey};
use crate::protocol::{
    CallSignature, EnrolRequest, FetchModelRequest, JoinRequest, PROTOCOL, ReportHeader,
    WatchRequest,
};
use merlin::Transcript;
use schnorrkel::Signature;

/// A call that a client makes under its number.
pub trait SignedRequest {
    /// The kind of the call, so that the signature of one is not valid for another.
    const CALL: &'static [u8];

    /// The client that makes it.
    fn client(&self) -> u32;

    /// In which run.
    fn run(&self) -> &[u8];

    /// The signature, or the place for it.
    fn call_signature(&self) -> Option<&CallSignature>;

    /// Puts the signature on.
    fn set_signature(&mut self, signature: CallSignature);

    /// Everything else that means something.
    fn write(&self, transcript: &mut Transcript);
}

fn transcript<M: SignedRequest>(message: &M, session: &[u8], counter: u64) -> Transcript {
    let mut transcript = Transcript::new(b"agewise call");
    transcript.append_message(b"call", M::CALL);
    transcript.append_message(b"session", session);
    transcript.append_u64(b"counter", counter);
    transcript.append_message(b"run", message.run());
    transcript.append_u64(b"client", u64::from(message.client()));
    message.write(&mut transcript);
    transcript
}

/// Whether the signature on a call is this client's, for this session. The caller checks the counter.
pub fn verify<M: SignedRequest>(message: &M, key: &PublicKey, session: &[u8]) -> bool {
    let Some(CallSignature { counter, signature }) = message.call_signature() else {
        return false;
    };
    let Ok(signature) = Signature::from_bytes(signature) else {
        return false;
    };
    key.0.verify(transcript(message, session, *counter), &signature).is_ok()
}

/// Signs the calls of one session, one after the other.
#[derive(Debug, Clone)]
pub struct RequestSigner {
    identity: Identity,
    session: Vec<u8>,
    counter: u64,
}

impl RequestSigner {
    /// For the session that began with this challenge.
    pub fn new(identity: Identity, session: Vec<u8>) -> Self {
        Self { identity, session, counter: 0 }
    }

    /// The call with its signature.
    #[must_use]
    pub fn sign<M: SignedRequest>(&mut self, mut message: M) -> M {
        self.counter += 1;
        let transcript = transcript(&message, &self.session, self.counter);
        let signature = self.identity.pair.sign(transcript).to_bytes().to_vec();
        message.set_signature(CallSignature { counter: self.counter, signature });
        message
    }
}

fn enrolment(request: &EnrolRequest) -> Transcript {
    let mut transcript = Transcript::new(b"agewise enrolment");
    transcript.append_message(b"challenge", &request.challenge);
    transcript.append_message(b"name", request.name.as_bytes());
    transcript.append_u64(b"samples", request.samples);
    transcript.append_message(b"key", &request.key);
    transcript.append_message(b"token", request.token.as_bytes());
    transcript.append_u64(b"protocol", u64::from(request.protocol));
    transcript
}

/// An enrolment with the version of the protocol, its key and its signature: the proof that the client has the secret key.
#[must_use]
pub fn sign_enrolment(mut request: EnrolRequest, identity: &Identity) -> EnrolRequest {
    request.protocol = PROTOCOL;
    request.key = identity.public().to_bytes().to_vec();
    request.signature = identity.pair.sign(enrolment(&request)).to_bytes().to_vec();
    request
}

/// The key of an enrolment, if its signature proves that the client has the secret key.
pub fn verify_enrolment(request: &EnrolRequest) -> Option<PublicKey> {
    let key = PublicKey::from_bytes(&request.key)?;
    let signature = Signature::from_bytes(&request.signature).ok()?;
    key.0.verify(enrolment(request), &signature).is_ok().then_some(key)
}

/// The parts of [`SignedRequest`] that are the same for every message.
macro_rules! signed_request {
    ($message:ident, $call:literal, |$this:ident, $transcript:ident| $write:block) => {
        impl SignedRequest for $message {
            const CALL: &'static [u8] = $call;

            fn client(&self) -> u32 {
                self.client
            }

            fn run(&self) -> &[u8] {
                &self.run
            }

            fn call_signature(&self) -> Option<&CallSignature> {
                self.call_signature.as_ref()
            }

            fn set_signature(&mut self, signature: CallSignature) {
                self.call_signature = Some(signature);
            }

            fn write(&self, $transcript: &mut Transcript) {
                let $this = self;
                $write
            }
        }
    };
}

signed_request!(WatchRequest, b"watch", |_this, _transcript| {});
signed_request!(JoinRequest, b"join", |this, transcript| {
    transcript.append_u64(b"round", this.round);
    transcript.append_u64(b"age", this.age);
    transcript.append_message(b"proof", &this.proof);
});
signed_request!(FetchModelRequest, b"fetch", |this, transcript| {
    transcript.append_u64(b"round", this.round);
});
signed_request!(ReportHeader, b"report", |this, transcript| {
    transcript.append_u64(b"round", this.round);
    transcript.append_u64(b"model version", this.model_version);
    transcript.append_u64(b"samples", this.samples);
    transcript.append_u64(b"loss", this.loss.to_bits());
    transcript.append_u64(b"seconds", this.seconds.to_bits());
    transcript.append_u64(b"parameters", this.parameters);
    transcript.append_message(b"sha256", &this.sha256);
});

#[cfg(test)]
mod tests {
    use super::*;

    fn join() -> JoinRequest {
        let run = vec![1; 16];
        JoinRequest { client: 3, run, round: 5, age: 2, proof: vec![9; 96], call_signature: None }
    }

    #[test]
    fn a_signature_holds_for_its_call_its_session_and_its_key() {
        let identity = Identity::from_secret([1; 32]);
        let session = vec![7; 40];
        let mut signer = RequestSigner::new(identity.clone(), session.clone());
        let signed = signer.sign(join());
        let key = identity.public();
        assert!(verify(&signed, &key, &session));
        assert!(!verify(&join(), &key, &session));
        assert!(!verify(&signed, &key, &[8; 40]));
        assert!(!verify(&signed, &Identity::from_secret([2; 32]).public(), &session));
        let call_signature = signed.call_signature.clone();
        let changed = |change: fn(&mut JoinRequest)| {
            let mut other = signed.clone();
            change(&mut other);
            other
        };
        for other in [
            changed(|join| join.client = 4),
            changed(|join| join.run[0] = 0),
            changed(|join| join.round = 6),
            changed(|join| join.age = 3),
            changed(|join| join.proof[95] = 0),
            changed(|join| join.call_signature.as_mut().unwrap().counter += 1),
            changed(|join| join.call_signature.as_mut().unwrap().signature[0] ^= 1),
            changed(|join| join.call_signature.as_mut().unwrap().signature.truncate(10)),
        ] {
            assert!(!verify(&other, &key, &session), "{other:?}");
        }
        // The signature of one call on another of the same contents.
        let (client, run) = (3, vec![1; 16]);
        let fetch = FetchModelRequest {
            client,
            run: run.clone(),
            round: 5,
            call_signature: call_signature.clone(),
        };
        assert!(!verify(&fetch, &key, &session));
        assert!(!verify(&WatchRequest { client, run, call_signature }, &key, &session));
        assert_eq!(signer.sign(join()).call_signature.unwrap().counter, 2);
    }

    #[test]
    fn an_enrolment_shows_that_the_key_is_there() {
        let identity = Identity::from_secret([1; 32]);
        let request = EnrolRequest {
            name: "a".to_string(),
            samples: 10,
            token: "t".to_string(),
            challenge: vec![3; 40],
            ..EnrolRequest::default()
        };
        let signed = sign_enrolment(request, &identity);
        assert_eq!(verify_enrolment(&signed), Some(identity.public()));
        let other = Identity::from_secret([2; 32]).public().to_bytes().to_vec();
        for changed in [
            EnrolRequest { name: "b".to_string(), ..signed.clone() },
            EnrolRequest { samples: 11, ..signed.clone() },
            EnrolRequest { token: String::new(), ..signed.clone() },
            EnrolRequest { challenge: vec![4; 40], ..signed.clone() },
            EnrolRequest { key: other, ..signed.clone() },
            EnrolRequest { signature: vec![0; 64], ..signed.clone() },
            EnrolRequest { protocol: 1, ..signed.clone() },
            EnrolRequest { key: Vec::new(), ..signed },
        ] {
            assert_eq!(verify_enrolment(&changed), None);
        }
    }
}
