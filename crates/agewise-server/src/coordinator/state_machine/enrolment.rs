//! Enrolment and revocation.

use super::Driver;
use super::replies::{Answer, MOST_SAMPLES};
use crate::coordinator::auth::Enrolment;
use crate::coordinator::error::CoordinatorError;
use crate::coordinator::storage::ledger::ClientRow;
use crate::crypto::PublicKey;
use crate::protocol::name::check_name;
use crate::protocol::{EnrolReply, EnrolRequest, RevokeReply};
use agewise_core::Error;

impl Driver {
    /// Reads clients and tokens again, and what else an operator asks for, if the ledger was written to since the last time.
    pub(super) fn refresh(&mut self) -> Result<(), CoordinatorError> {
        let version = self.deps.ledger.version()?;
        if version != self.ledger_version {
            self.read_access()?;
            self.roll_back()?;
            // If this is not committed, it is forgotten with everything else.
            self.ledger_version = version;
        }
        Ok(())
    }

    fn read_access(&mut self) -> Result<(), CoordinatorError> {
        for client in self.deps.auth.load(self.deps.ledger.access()?) {
            self.exclude(client)?;
        }
        self.read_suspended()
    }

    /// The first round that has not begun.
    fn next_round(&self) -> u64 {
        self.round_number() + u64::from(self.phase.round().is_some())
    }

    /// Takes a client that was revoked out of the run, and out of the round unless it has reported.
    fn exclude(&mut self, client: u32) -> Result<(), CoordinatorError> {
        tracing::info!(client, "revoked");
        self.watchers.remove(client);
        self.selection.leave(client)?;
        let from = self.next_round();
        if let Some(round) = self.phase.round_mut() {
            match round.members.get_mut(&client) {
                Some(member) if member.report.is_some() => member.excluded = Some("revoked"),
                Some(_) => drop(round.members.remove(&client)),
                None => {}
            }
        }
        self.deps.ledger.revoked_from(client, from)?;
        Ok(())
    }

    /// Revokes a client or a token because an operator asks for it over the network.
    pub(super) fn revoke(&mut self, who: &str) -> Answer<RevokeReply> {
        let Some(revoked) = self.deps.ledger.revoke(who)? else {
            let shown: String = who.chars().take(80).collect();
            let expected = "the name of a client or the public part of a token";
            return Ok(Err(Error::new("who", format!("{shown:?}"), expected).into()));
        };
        self.read_access()?;
        Ok(Ok(RevokeReply { revoked }))
    }

    pub(super) fn enrol(&mut self, request: &EnrolRequest, key: PublicKey) -> Answer<EnrolReply> {
        let EnrolRequest { name, samples, .. } = request;
        let samples = *samples;
        if let Err(error) = check_name(name) {
            return Ok(Err(error.into()));
        }
        if !(1..=MOST_SAMPLES).contains(&samples) {
            let error = Error::new("samples", samples, format!("from 1 to {MOST_SAMPLES}"));
            return Ok(Err(error.into()));
        }
        let client = match self.deps.auth.may_enrol(request) {
            Err(refusal) => {
                let client = self.deps.auth.proven(request, refusal.reason);
                self.deps.auth.note(client, &refusal, None);
                return Ok(Err(refusal.into()));
            }
            Ok(Enrolment::Returning(client, token)) => {
                if let Some(token) = token {
                    self.deps.ledger.spend_token(&token, client)?;
                    self.deps.auth.spend(&token, client);
                }
                if self.selection.samples(client) != samples {
                    let is_playing = self.phase.round().is_some();
                    self.selection.set_samples(client, samples, is_playing)?;
                    self.deps.ledger.set_samples(client, self.next_round(), samples)?;
                }
                client
            }
            Ok(Enrolment::Rekeyed(client, token)) => {
                let since = self.next_round();
                self.deps.ledger.set_key(client, since, key)?;
                self.deps.ledger.spend_token(&token, client)?;
                self.deps.auth.renew(client, key, since);
                self.deps.auth.spend(&token, client);
                tracing::info!(client, name, "enrolled with a new key");
                client
            }
            Ok(Enrolment::New(token)) => {
                let (config, interval) = (&self.deps.config, self.announced_interval);
                let client = match self.selection.enrol(config, samples, interval) {
                    Ok(client) => client,
                    Err(error) => return Ok(Err(error.into())),
                };
                let round = self.round_number();
                let row = ClientRow {
                    name: name.clone(),
                    key,
                    key_since: round,
                    samples,
                    waiting_since: self.selection.ages().waiting_since(client),
                    revoked: false,
                    revoked_from: None,
                    failures: 0,
                    eligible_from: 0,
                };
                self.deps.ledger.enrol(client, round, self.deps.settings, &row)?;
                self.deps.auth.register(name, key, client, round);
                if let Some(token) = &token {
                    self.deps.ledger.spend_token(token, client)?;
                    self.deps.auth.spend(token, client);
                }
                tracing::info!(client, name, "enrolled");
                client
            }
        };
        Ok(Ok(EnrolReply {
            client,
            run: self.deps.run.clone(),
            waiting_since: self.waiting_since(client),
            task: Some(self.task_spec()?),
            seeds: self.commitment.clone(),
            back_off: Some(self.back_off(client)),
        }))
    }

    /// Writes the refusals of the authenticator to the ledger.
    pub(super) fn note_refused(&mut self) -> Result<(), CoordinatorError> {
        let round = self.round_number();
        for (client, reason, count, detail) in self.deps.auth.take_refused() {
            self.deps.ledger.refuse(round, client, reason, &detail, count)?;
            self.deps.shared.metrics.refuse(reason, count);
        }
        Ok(())
    }
}
