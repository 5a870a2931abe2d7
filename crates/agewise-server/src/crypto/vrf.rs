//! Verifiable draws: the statement is "under the key that I registered, the verifiable random function of this run, this round and
//! this seed is this number". There is one such number, so a client can neither choose it nor draw again; only the client can
//! know it before it is shown, and everyone can check it then.

use super::identity::{Identity, PublicKey};
use agewise_core::Draw;
use merlin::Transcript;
use schnorrkel::vrf::{VRFInOut, VRFPreOut, VRFProof};

/// Bytes of a proof: the function's output, and why it is right.
pub const PROOF_BYTES: usize = OUTPUT_BYTES + 64;
const OUTPUT_BYTES: usize = 32;

/// The run and the round of a draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DrawContext<'a> {
    /// The run.
    pub run: &'a [u8],
    /// The round, from 0.
    pub round: u64,
    /// The seed of the round.
    pub seed: &'a [u8],
}

impl DrawContext<'_> {
    fn transcript(&self) -> Transcript {
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
        if proof.len() != PROOF_BYTES {
            return None;
        }
        let (output, proof) = proof.split_at(OUTPUT_BYTES);
        let output = VRFPreOut::from_bytes(output).ok()?;
        let proof = VRFProof::from_bytes(proof).ok()?;
        let (output, _) = key.0.vrf_verify(self.transcript(), &output, &proof).ok()?;
        Some(draw_of(&output))
    }
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

    const CONTEXT: DrawContext<'static> = DrawContext { run: &[1; 16], round: 7, seed: &[2; 32] };

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
        ] {
            assert_eq!(other.verify(&identity(1).public(), &proof), None);
            assert_ne!(other.draw(&identity(1)).0, drawn);
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
