import { hostname } from 'node:os'
import { buildChainPem, generateP256, type Name, PkiError, parseName, toPem } from '@gatehouse/pki'
import {
  type SelfIssued,
  type TlsCredentials,
  type TlsSource,
  tlsFromFiles,
  tlsSelfRenewed,
} from '@gatehouse/service-kit'
import { type CertServiceConfig, isPlain } from './config/schema.ts'
import { planRenewal } from './issuance/renewal.ts'
import type { Ca } from './issuers/ca.ts'
import type { Issued } from './issuers/issuer.ts'
import type { Logger } from './log.ts'
import type { Service } from './service.ts'

/** Where the service's own TLS credentials come from; undefined: it speaks plain HTTP. */
export async function openOwnTls(
  { server }: CertServiceConfig,
  service: Service,
  log: Logger,
  onChange: (credentials: TlsCredentials) => void,
): Promise<TlsSource | undefined> {
  if (isPlain(server.tls)) return undefined
  if (server.tls !== 'own') return tlsFromFiles({ ...server.tls, onChange, log })
  const names = ownNames(server).filter((name) => service.ca.permits(name))
  const issue = () => issueOwn(names, service)
  return tlsSelfRenewed({ issue, clock: service.clock, onChange, log })
}

/** A new key each time; it is never stored. */
async function issueOwn(
  names: readonly Name[],
  { ca, clock, store }: Service,
): Promise<SelfIssued> {
  const key = generateP256()
  const issued = issueInAnyCase(ca, { names, keyType: 'p256', spki: key.spki })
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

/** What is held has to be answered, also while the CA is over for the clock or has not begun. */
function issueInAnyCase(ca: Ca, request: Parameters<Ca['issue']>[0]): Issued {
  try {
    return ca.issue(request)
  } catch (error) {
    if (error instanceof PkiError && error.code === 'PKI_CA_EXPIRING')
      return ca.issueNearest(request)
    throw error
  }
}

const UNSPECIFIED = ['0.0.0.0', '::']

function ownNames({ host, names }: CertServiceConfig['server']): readonly Name[] {
  const reached = UNSPECIFIED.includes(host) ? [] : [host]
  const own = ['localhost', '127.0.0.1', '::1', hostname(), ...reached, ...names].flatMap(
    nameOrNone,
  )
  return [...new Map(own.map((name) => [name.text, name])).values()]
}

/** Host names of machines need not be DNS names. */
function nameOrNone(text: string): Name[] {
  try {
    return [parseName(text)]
  } catch {
    return []
  }
}
