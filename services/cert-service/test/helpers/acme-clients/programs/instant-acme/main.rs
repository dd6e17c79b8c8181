//! Runs instant-acme, which is a library alone.
//! Arguments: issue, renew or revoke, and a name. Its files are in the working directory.
use std::{env, error::Error, fs, path::Path};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use instant_acme::{
    Account, AuthorizationStatus, ExternalAccountKey, Identifier, NewAccount, NewOrder,
    OrderStatus, RetryPolicy, RevocationRequest,
};
use rustls_pki_types::{CertificateDer, pem::PemObject};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The account of an earlier run, or a new one.
async fn account() -> Result<Account> {
    let file = Path::new("account.json");
    let builder = Account::builder_with_root(env::var("ROOT")?)?;
    if file.exists() {
        let credentials = serde_json::from_slice(&fs::read(file)?)?;
        return Ok(builder.from_credentials(credentials).await?);
    }
    let key = URL_SAFE_NO_PAD.decode(env::var("HMAC_KEY")?)?;
    let binding = ExternalAccountKey::new(env::var("KID")?, &key);
    let wanted = NewAccount {
        contact: &["mailto:ops@example.com"],
        terms_of_service_agreed: true,
        only_return_existing: false,
    };
    let (account, credentials) = builder
        .create(&wanted, env::var("DIRECTORY")?, Some(&binding))
        .await?;
    fs::write(file, serde_json::to_vec(&credentials)?)?;
    Ok(account)
}

/// Gives back what was granted: the order can no longer be finalized.
async fn deactivate(account: &Account, identifiers: &[Identifier]) -> Result<()> {
    let mut order = account.new_order(&NewOrder::new(identifiers)).await?;
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        authorization?.deactivate().await?;
    }
    match order.refresh().await?.status {
        OrderStatus::Ready => Err("the order is still ready".into()),
        _ => Ok(()),
    }
}

async fn order(account: &Account, identifiers: &[Identifier]) -> Result<String> {
    let mut order = account.new_order(&NewOrder::new(identifiers)).await?;
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        match authorization?.status {
            AuthorizationStatus::Valid => {}
            status => return Err(format!("an authorization is {status:?}").into()),
        }
    }
    order.finalize().await?;
    Ok(order.poll_certificate(&RetryPolicy::default()).await?)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let [_, action, name] = &env::args().collect::<Vec<_>>()[..] else {
        return Err("an action and a name are needed".into());
    };
    let file = format!("{name}.pem");
    let account = account().await?;
    if action == "revoke" {
        let certificate = CertificateDer::from_pem_file(&file)?;
        let request = RevocationRequest {
            certificate: &certificate,
            reason: None,
        };
        return Ok(account.revoke(&request).await?);
    }
    let identifiers = [Identifier::Dns(name.clone())];
    if action == "renew" {
        deactivate(&account, &identifiers).await?;
    }
    Ok(fs::write(file, order(&account, &identifiers).await?)?)
}
