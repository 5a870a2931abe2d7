//! Verifiable draws: the statement is "under the key that I registered, the verifiable random function of this run, this round, this
//! seed and my number is this number". There is one such number, so a client can neither choose it nor draw again; only the client can
//! know it before it is shown, and everyone can check it then. As the client's number is in it, two clients have independent draws even
//! if they had the same key.

use super::identity::{Identity, PublicKey};
use agewise_core::Draw;
use merlin::Transcript;
use schnorrkel::vrf::{VRFInOut, VRFPreOut, VRFProof};

/// Bytes of a proof: the function's output, and why it is right.
pub const PROOF_BYTES: usize = OUTPUT_BYTES + 64;
const OUTPUT_BYTES: usize = 32;

/// How draws are made from now on. Rounds of older ledgers have the first version, in which the client's number was not in the input.
pub const DRAW_VERSION: u32 = 2;

/// The run, the round and the client of a draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DrawContext<'a> {
    /// The run.
    pub run: &'a [u8],
    /// The round, from 0.
    pub round: u64,
    /// The seed of the round.
    pub seed: &'a [u8],
    /// The number of the client.
    pub client: u32,
}

impl DrawContext<'_> {
    fn transcript(&self) -> Transcript {
        let mut transcript = self.transcript_of_version_1();
        transcript.append_u64(b"client", u64::from(self.client));
        transcript
    }

    fn transcript_of_version_1(&self) -> Transcript {
        let mut transcript = Transcript::new(b"agewise lot");
        transcript.append_message(b"run", self.run);
        transcript.append_u64(b"round", self.round);
        transcript.append_message(b"seed", self.seed);
        transcript
    }

    /// The draw of a client, and the proof.
    pub fn draw(&self, identity: &Identity) -> (Draw, Vec<u8>) {
        let (output, proof, _) = identity.pair.vrf_sign(self.transcript());
        let mut bytes = output.to_preout().to_bytes().to_vec();
        bytes.extend_from_slice(&proof.to_bytes());
        (draw_of(&output), bytes)
    }

    /// The draw that a proof is for; `None` if it is not a proof of this draw under this key.
    pub fn verify(&self, key: &PublicKey, proof: &[u8]) -> Option<Draw> {
        verify(self.transcript(), key, proof)
    }

    /// The same for a round of an older ledger, by the version of its draws; `None` also if there is no such version.
    pub(crate) fn verify_past(&self, version: u32, key: &PublicKey, proof: &[u8]) -> Option<Draw> {
        match version {
            1 => verify(self.transcript_of_version_1(), key, proof),
            DRAW_VERSION => self.verify(key, proof),
            _ => None,
        }
    }
}

fn verify(transcript: Transcript, key: &PublicKey, proof: &[u8]) -> Option<Draw> {
    if proof.len() != PROOF_BYTES {
        return None;
    }
    let (output, proof) = proof.split_at(OUTPUT_BYTES);
    let output = VRFPreOut::from_bytes(output).ok()?;
    let proof = VRFProof::from_bytes(proof).ok()?;
    let (output, _) = key.0.vrf_verify(transcript, &output, &proof).ok()?;
    Some(draw_of(&output))
}

fn draw_of(output: &VRFInOut) -> Draw {
    Draw::from_bits(u64::from_le_bytes(output.make_bytes(b"agewise lot")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(number: u8) -> Identity {
        Identity::from_secret([number; 32])
    }

    const CONTEXT: DrawContext<'static> =
        DrawContext { run: &[1; 16], round: 7, seed: &[2; 32], client: 3 };

    #[test]
    fn a_draw_is_proven_by_its_owner_for_its_draw_only() {
        let (drawn, proof) = CONTEXT.draw(&identity(1));
        assert_eq!(CONTEXT.verify(&identity(1).public(), &proof), Some(drawn));
        // Again: another proof, the same draw.
        assert_eq!(CONTEXT.draw(&identity(1)).0, drawn);
        assert_eq!(CONTEXT.verify(&identity(2).public(), &proof), None);
        for other in [
            DrawContext { run: &[3; 16], ..CONTEXT },
            DrawContext { round: 8, ..CONTEXT },
            DrawContext { seed: &[3; 32], ..CONTEXT },
            DrawContext { client: 4, ..CONTEXT },
        ] {
            assert_eq!(other.verify(&identity(1).public(), &proof), None);
            assert_ne!(other.draw(&identity(1)).0, drawn);
        }
    }

    /// The draws that 0.1 made: the audit of an old ledger checks them, and nothing else takes them.
    #[test]
    fn a_draw_of_version_1_is_good_for_rounds_of_that_version_only() {
        let identity = identity(1);
        let (output, proof, _) = identity.pair.vrf_sign(CONTEXT.transcript_of_version_1());
        let mut bytes = output.to_preout().to_bytes().to_vec();
        bytes.extend_from_slice(&proof.to_bytes());
        let key = identity.public();
        let drawn = Some(draw_of(&output));
        assert_eq!(CONTEXT.verify_past(1, &key, &bytes), drawn);
        // Whatever the number of the client is: that is why there is a second version.
        let other = DrawContext { client: 4, ..CONTEXT };
        assert_eq!(other.verify_past(1, &key, &bytes), drawn);
        assert_eq!(CONTEXT.verify(&key, &bytes), None);
        let (drawn, proof) = CONTEXT.draw(&identity);
        assert_eq!(CONTEXT.verify_past(2, &key, &proof), Some(drawn));
        for version in [0, 1, 3] {
            assert_eq!(CONTEXT.verify_past(version, &key, &proof), None);
        }
    }

    #[test]
    fn a_changed_proof_proves_nothing() {
        let (_, proof) = CONTEXT.draw(&identity(1));
        let key = identity(1).public();
        for place in 0..proof.len() {
            for bit in [1, 128] {
                let mut changed = proof.clone();
                changed[place] ^= bit;
                assert_eq!(CONTEXT.verify(&key, &changed), None, "byte {place}");
            }
        }
        for length in [0, 1, PROOF_BYTES - 1, PROOF_BYTES + 1] {
            assert_eq!(CONTEXT.verify(&key, &vec![0; length]), None);
        }
    }

    /// 4,000 draws: the mean has a standard error of 0.0046, and a share of one tenth one of 0.0047. Five of them are allowed.
    #[test]
    fn draws_are_uniform() {
        let clients: Vec<Identity> = (0..4).map(identity).collect();
        let draws = (0..1_000).flat_map(|round| {
            clients.iter().map(move |client| DrawContext { round, ..CONTEXT }.draw(client).0.unit())
        });
        let draws: Vec<f64> = draws.collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        assert!((mean - 0.5).abs() < 0.023, "{mean}");
        let low = draws.iter().filter(|&&drawn| drawn < 0.1).count() as f64 / draws.len() as f64;
        assert!((low - 0.1).abs() < 0.024, "{low}");
    }
}
