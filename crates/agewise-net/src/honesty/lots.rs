//! Lots that can be proven: the statement is "under the key that I registered, the verifiable random function of this run, this round and
//! this seed is this number". There is one such number, so a client can neither choose it nor draw again; nobody but the client can
//! know it before it is shown, and everybody can check it then.

use super::identity::{Identity, PublicKey};
use agewise_core::Lot;
use merlin::Transcript;
use schnorrkel::vrf::{VRFInOut, VRFPreOut, VRFProof};

/// Bytes of a proof: the function's output, and why it is right.
pub const PROOF_BYTES: usize = OUTPUT_BYTES + 64;
const OUTPUT_BYTES: usize = 32;

/// What a lot is drawn for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Draw<'a> {
    /// The run.
    pub run: &'a [u8],
    /// The round, from 0.
    pub round: u64,
    /// The seed of the round.
    pub seed: &'a [u8],
}

impl Draw<'_> {
    fn transcript(&self) -> Transcript {
        let mut transcript = Transcript::new(b"agewise lot");
        transcript.append_message(b"run", self.run);
        transcript.append_u64(b"round", self.round);
        transcript.append_message(b"seed", self.seed);
        transcript
    }

    /// The lot of a client, and the proof.
    pub fn by(&self, identity: &Identity) -> (Lot, Vec<u8>) {
        let (output, proof, _) = identity.pair.vrf_sign(self.transcript());
        let mut bytes = output.to_preout().to_bytes().to_vec();
        bytes.extend_from_slice(&proof.to_bytes());
        (lot(&output), bytes)
    }

    /// The lot that a proof is for; `None` if it is not a proof of this draw under this key.
    pub fn verify(&self, key: &PublicKey, proof: &[u8]) -> Option<Lot> {
        if proof.len() != PROOF_BYTES {
            return None;
        }
        let (output, proof) = proof.split_at(OUTPUT_BYTES);
        let output = VRFPreOut::from_bytes(output).ok()?;
        let proof = VRFProof::from_bytes(proof).ok()?;
        let (output, _) = key.0.vrf_verify(self.transcript(), &output, &proof).ok()?;
        Some(lot(&output))
    }
}

fn lot(output: &VRFInOut) -> Lot {
    Lot::from_bits(u64::from_le_bytes(output.make_bytes(b"agewise lot")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(number: u8) -> Identity {
        Identity::from_secret([number; 32])
    }

    const DRAW: Draw<'static> = Draw { run: &[1; 16], round: 7, seed: &[2; 32] };

    #[test]
    fn a_lot_is_proven_by_its_owner_for_its_draw_only() {
        let (lot, proof) = DRAW.by(&identity(1));
        assert_eq!(DRAW.verify(&identity(1).public(), &proof), Some(lot));
        // Again: another proof, the same lot.
        assert_eq!(DRAW.by(&identity(1)).0, lot);
        assert_eq!(DRAW.verify(&identity(2).public(), &proof), None);
        for other in [
            Draw { run: &[3; 16], ..DRAW },
            Draw { round: 8, ..DRAW },
            Draw { seed: &[3; 32], ..DRAW },
        ] {
            assert_eq!(other.verify(&identity(1).public(), &proof), None);
            assert_ne!(other.by(&identity(1)).0, lot);
        }
    }

    #[test]
    fn a_changed_proof_proves_nothing() {
        let (_, proof) = DRAW.by(&identity(1));
        let key = identity(1).public();
        for place in 0..proof.len() {
            for bit in [1, 128] {
                let mut changed = proof.clone();
                changed[place] ^= bit;
                assert_eq!(DRAW.verify(&key, &changed), None, "byte {place}");
            }
        }
        for length in [0, 1, PROOF_BYTES - 1, PROOF_BYTES + 1] {
            assert_eq!(DRAW.verify(&key, &vec![0; length]), None);
        }
    }

    /// 4,000 lots: the mean has a standard error of 0.0046, and a share of one tenth one of 0.0047. Five of them are allowed.
    #[test]
    fn lots_are_uniform() {
        let clients: Vec<Identity> = (0..4).map(identity).collect();
        let lots = (0..1_000).flat_map(|round| {
            clients.iter().map(move |client| Draw { round, ..DRAW }.by(client).0.unit())
        });
        let lots: Vec<f64> = lots.collect();
        let mean = lots.iter().sum::<f64>() / lots.len() as f64;
        assert!((mean - 0.5).abs() < 0.023, "{mean}");
        let low = lots.iter().filter(|&&lot| lot < 0.1).count() as f64 / lots.len() as f64;
        assert!((low - 0.1).abs() < 0.024, "{low}");
    }
}
