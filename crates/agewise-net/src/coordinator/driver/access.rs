//! Who is let in, and who is shut out.

use super::Driver;
use super::answers::{Answer, MOST_SAMPLES};
use crate::coordinator::command::Denied;
use crate::coordinator::gate::Admission;
use crate::coordinator::population::check_growth;
use crate::coordinator::trouble::Trouble;
use crate::honesty::PublicKey;
use crate::name::check_name;
use crate::proto::{EnrolReply, EnrolRequest, RevokeReply};
use agewise_core::Error;

impl Driver {
    /// Reads who is known and who is revoked again, if an operator has written to the ledger since the last time.
    pub(super) fn refresh(&mut self) -> Result<(), Trouble> {
        let version = self.parts.ledger.version()?;
        if version != self.ledger_version {
            self.read_access()?;
            self.ledger_version = version;
        }
        Ok(())
    }

    fn read_access(&mut self) -> Result<(), Trouble> {
        let clients = self.parts.ledger.clients()?;
        let tokens = self.parts.ledger.tokens()?;
        for client in self.parts.gate.load(&clients, tokens) {
            self.shut_out(client)?;
        }
        Ok(())
    }

    /// The first round that has not begun.
    fn next_round(&self) -> u64 {
        self.round_number() + u64::from(self.stage.course().is_some())
    }

    /// Whatever a client that was revoked was about to do does not happen.
    fn shut_out(&mut self, client: u32) -> Result<(), Trouble> {
        tracing::info!(client, "revoked");
        self.watchers.remove(&client);
        let from = self.next_round();
        if let Some(course) = self.stage.course_mut() {
            match course.members.get_mut(&client) {
                Some(member) if member.report.is_some() => member.left_out = Some("revoked"),
                Some(_) => drop(course.members.remove(&client)),
                None => {}
            }
        }
        self.parts.ledger.revoked_from(client, from)?;
        Ok(())
    }

    /// Shuts somebody out because an operator asks for it over the network.
    pub(super) fn revoke(&mut self, who: &str) -> Answer<RevokeReply> {
        let Some(revoked) = self.parts.ledger.revoke(who)? else {
            let shown: String = who.chars().take(80).collect();
            let expected = "the name of a client or the public part of a token";
            return Ok(Err(Error::new("who", format!("{shown:?}"), expected)));
        };
        self.read_access()?;
        Ok(Ok(RevokeReply { revoked }))
    }

    pub(super) fn enrol(
        &mut self,
        request: &EnrolRequest,
        key: PublicKey,
    ) -> Result<Result<EnrolReply, Denied>, Trouble> {
        let EnrolRequest { name, samples, .. } = request;
        let samples = *samples;
        if let Err(error) = check_name(name) {
            return Ok(Err(Denied::Input(error)));
        }
        if !(1..=MOST_SAMPLES).contains(&samples) {
            let error = Error::new("samples", samples, format!("from 1 to {MOST_SAMPLES}"));
            return Ok(Err(Denied::Input(error)));
        }
        let client = match self.parts.gate.may_enrol(request) {
            Err(refusal) => {
                let client = self.parts.gate.proven(request, refusal.reason);
                self.parts.gate.note(client, &refusal, None);
                return Ok(Err(Denied::Refused(refusal)));
            }
            Ok(Admission::Known(client, token)) => {
                if let Some(token) = token {
                    self.parts.ledger.spend_token(&token, client)?;
                    self.parts.gate.spend(&token, client);
                }
                if self.population.samples(client) != samples {
                    self.population.set_samples(client, samples);
                    self.parts.ledger.set_samples(client, self.next_round(), samples)?;
                }
                client
            }
            Ok(Admission::Renewed(client, token)) => {
                let since = self.next_round();
                self.parts.ledger.set_key(client, since, key)?;
                self.parts.ledger.spend_token(&token, client)?;
                self.parts.gate.renew(client, key, since);
                self.parts.gate.spend(&token, client);
                tracing::info!(client, name, "enrolled with a new key");
                client
            }
            Ok(Admission::New(token)) => {
                let (config, interval) = (&self.parts.config, self.announced_interval);
                let client = self.population.len();
                // Those with whom the run begins were counted on when the policy was checked.
                if u64::from(client) >= config.params.round.clients
                    && let Err(error) = check_growth(config, client + 1)
                {
                    return Ok(Err(Denied::Input(error)));
                }
                let admitted = self.population.admit(name, key, samples, config, interval);
                let (client, row) = admitted;
                let round = self.round_number();
                self.parts.ledger.enrol(client, round, self.parts.settings, &row)?;
                self.parts.gate.register(name, key, client, row.key_since);
                if let Some(token) = &token {
                    self.parts.ledger.spend_token(token, client)?;
                    self.parts.gate.spend(token, client);
                }
                tracing::info!(client, name, "enrolled");
                client
            }
        };
        Ok(Ok(EnrolReply {
            client,
            run: self.parts.run.clone(),
            waiting_since: self.waiting_since(client),
            task: Some(self.task()?),
            seeds: self.commitment.clone(),
        }))
    }

    /// Writes down what the gate has refused without asking.
    pub(super) fn note_refused(&mut self) -> Result<(), Trouble> {
        let round = self.round_number();
        for (client, reason, count, detail) in self.parts.gate.take_refused() {
            self.parts.ledger.refuse(round, client, reason, &detail, count)?;
            self.parts.shared.metrics.refuse(reason, count);
        }
        Ok(())
    }
}
