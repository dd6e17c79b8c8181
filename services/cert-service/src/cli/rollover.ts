import { systemClock } from '@gatehouse/service-kit'
import type { IssuerConfig } from '../config/issuers.ts'
import { CertError } from '../errors.ts'
import { openAcmeServer } from '../issuers/acme/server.ts'
import { Ledger } from '../limits/ledger.ts'
import { openKeyring } from '../sealing/keyring.ts'
import { openStore, requireStore } from '../store/open.ts'

/**
 * Gives the account of an issuer another key (RFC 8555 section 7.3.5), while the service is stopped.
 *
 * @throws CertError CERT_ISSUER_ABSENT, CERT_STORE_MISSING, CERT_STORE_LOCKED, CERT_MASTER_KEY_*;
 * AcmeError
 */
export async function rollover({
  folder,
  masterKeyFile,
  issuers,
  name,
}: {
  folder: string
  masterKeyFile: string
  issuers: readonly IssuerConfig[]
  name: string
}): Promise<void> {
  const config = issuers.find((issuer) => issuer.name === name)
  if (!config) throw new CertError('CERT_ISSUER_ABSENT', `no issuer is called ${name}`)
  requireStore(folder)
  const store = await openStore({ folder })
  try {
    const keyring = await openKeyring({ folder, masterKeyFile, store })
    const now = () => systemClock.now()
    const limits = await Ledger.open({ issuers, store, now, log: console })
    const log = { info() {} }
    const deps = { store, keyring, clock: systemClock, limits, log }
    const server = await openAcmeServer(config, deps)
    await server.account.rollover().finally(server.close)
  } finally {
    await store.close()
  }
}
