import { hostname } from 'node:os'
import type { Ca, Issued } from '@gatehouse/issuance/issuers'
import { nameOrNone } from '@gatehouse/issuance/request'
import { planRenewal } from '@gatehouse/issuance/times'
import { buildChainPem, generateP256, type Name, PkiError, toPem } from '@gatehouse/pki'
import type { Logger } from '@gatehouse/service-kit/telemetry'
import {
  applyTls,
  type SelfIssued,
  type TlsCredentials,
  type TlsSource,
  tlsFromFiles,
  tlsSelfRenewed,
} from '@gatehouse/service-kit/tls'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { type CertServiceConfig, isPlain } from '../config/schema.ts'

type Server = CertServiceConfig['server']

/**
 * Gives an HTTPS server its credentials and keeps them up to date.
 * @throws ConfigError `CONFIG_TLS_INVALID`; CertError if the certificate cannot be recorded
 */
export const ownTls = fp<{ readonly server: Server }>(
  async (app: FastifyInstance, { server }) => {
    if (isPlain(server.tls)) return
    const source = await openOwnTls(app, server, (credentials) => applyTls(app, credentials))
    app.addHook('onClose', async () => source.close())
    app.ca.onRoot(async () => source.renew?.())
    applyTls(app, source.current())
  },
  {
    name: 'cert-service/own-tls',
    dependencies: ['cert-service/issuers', 'cert-service/store', 'service-kit/clock'],
  },
)

/** Reads the credentials of the service from files, or issues them and renews them in time. */
export async function openOwnTls(
  app: Pick<FastifyInstance, 'ca' | 'clock' | 'store' | 'log'>,
  server: Server,
  onChange: (credentials: TlsCredentials) => void,
): Promise<TlsSource> {
  const log = app.log as Logger
  if (typeof server.tls === 'object') return tlsFromFiles({ ...server.tls, onChange, log })
  const names = ownNames(server).filter((name) => app.ca.servers.permits?.(name) ?? true)
  return tlsSelfRenewed({ issue: () => issueOwn(names, app), clock: app.clock, onChange, log })
}

/** Issues a certificate for a new key, which is never stored. */
async function issueOwn(
  names: readonly Name[],
  { ca, clock, store }: Pick<FastifyInstance, 'ca' | 'clock' | 'store'>,
): Promise<SelfIssued> {
  const key = generateP256()
  const issued = issueAnyway(ca, { names, keyType: 'p256', spki: key.spki })
  await store.addAudit([
    {
      at: clock.now(),
      action: 'issue',
      actor: 'system',
      names: names.map((name) => name.text),
      serialNumber: issued.serialNumber,
      detail: 'the certificate of this service itself',
    },
  ])
  return {
    key: toPem('PRIVATE KEY', key.pkcs8),
    cert: buildChainPem(issued.certificate, issued.chain),
    notBefore: issued.notBefore,
    renewAt: planRenewal(issued, Math.random),
  }
}

/** Issues a certificate even if the CA has expired or has not begun: the service still answers with what it holds. */
function issueAnyway(ca: Ca, request: Parameters<Ca['issue']>[0]): Issued {
  try {
    return ca.issue(request)
  } catch (error) {
    if (error instanceof PkiError && error.code === 'PKI_CA_EXPIRED')
      return ca.issueNearest(request)
    throw error
  }
}

const UNSPECIFIED = ['0.0.0.0', '::']

/** The names of the certificate of this service, unless its files have another one. */
export function ownNames({ host, names }: Pick<Server, 'host' | 'names'>): readonly Name[] {
  const reached = UNSPECIFIED.includes(host) ? [] : [host]
  const texts = ['localhost', '127.0.0.1', '::1', hostname(), ...reached, ...names]
  // The host name of a machine need not be a DNS name.
  const ownTexts = texts.flatMap((text) => nameOrNone(text) ?? [])
  return [...new Map(ownTexts.map((name) => [name.text, name])).values()]
}
