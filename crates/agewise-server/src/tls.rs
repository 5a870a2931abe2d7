//! TLS: certificates for a first try, and how both sides use theirs.

use agewise_core::{Error, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use tonic::transport::{Certificate, ClientTlsConfig, Identity, ServerTlsConfig};

/// The certificate and the key of a coordinator.
#[derive(Clone)]
pub struct ServerIdentity(Identity);

impl ServerIdentity {
    /// From PEM files.
    pub fn from_pem(certificate: &[u8], key: &[u8]) -> Self {
        Self(Identity::from_pem(certificate, key))
    }

    pub(crate) fn config(self) -> ServerTlsConfig {
        ServerTlsConfig::new().identity(self.0)
    }
}

/// Which certificates a client believes.
#[derive(Debug, Clone, Default)]
pub enum Trust {
    /// Those of the public authorities.
    #[default]
    Public,
    /// Those that this authority (PEM) has signed, and no others.
    Authority(Vec<u8>),
}

impl Trust {
    pub(crate) fn config(&self) -> ClientTlsConfig {
        match self {
            Self::Public => ClientTlsConfig::new().with_webpki_roots(),
            Self::Authority(pem) => {
                ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem))
            }
        }
    }
}

/// Certificates for a first try: an authority whose key is thrown away, and what it has signed.
#[derive(Debug, Clone)]
pub struct TrialCertificates {
    /// The authority, which clients have to know (PEM).
    pub authority: String,
    /// The coordinator's certificate (PEM).
    pub certificate: String,
    /// The coordinator's key (PEM): a secret.
    pub key: String,
}

impl TrialCertificates {
    /// For a coordinator that is reached under these host names and addresses.
    pub fn new(hosts: &[String]) -> Result<Self> {
        make(hosts).map_err(|error| {
            let expected = format!("host names and addresses for a certificate ({error})");
            Error::new("host", hosts.join(", "), expected)
        })
    }
}

fn make(hosts: &[String]) -> std::result::Result<TrialCertificates, rcgen::Error> {
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.distinguished_name.push(DnType::CommonName, "agewise trial authority");
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let authority_key = KeyPair::generate()?;
    let authority_certificate = authority.self_signed(&authority_key)?;
    let issuer = Issuer::new(authority, authority_key);
    let key = KeyPair::generate()?;
    let mut leaf = CertificateParams::new(hosts.to_vec())?;
    leaf.distinguished_name.push(DnType::CommonName, "agewise coordinator");
    leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let certificate = leaf.signed_by(&key, &issuer)?;
    Ok(TrialCertificates {
        authority: authority_certificate.pem(),
        certificate: certificate.pem(),
        key: key.serialize_pem(),
    })
}
