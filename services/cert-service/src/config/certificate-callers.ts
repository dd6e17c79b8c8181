import { LOOPBACK_NETWORKS } from '@gatehouse/net'
import { type Name, parseClientName } from '@gatehouse/pki'
import { FilePath, OptionalList, Text } from '@gatehouse/service-kit/config'
import { PROXIES, PROXY_NAMES } from '@gatehouse/service-kit/proxies'
import {
  applyRules,
  applyToEach,
  checkUnique,
  type Fault,
  faultIf,
  faultOf,
} from '@gatehouse/service-kit/rules'
import { type Static, Type } from 'typebox'
import { Lifetime, ProfileOf, Rights } from './rights.ts'

const NAME_KINDS = ['dns', 'email', 'uri'] as const

const CallerSchema = Type.Object(
  {
    name: Text('Name of the caller; in the audit trail and the log it is `mtls:NAME`.'),
    dns: Type.Optional(Text('DNS name of its certificate; or give `email` or `uri`.')),
    email: Type.Optional(Text('E-mail address of its certificate.')),
    uri: Type.Optional(Text('URI of its certificate, such as `spiffe://example.com/app`.')),
    domains: OptionalList(
      Type.String({ minLength: 1 }),
      'Name rules that the caller is limited to. Required unless it is an `operator`.',
    ),
    operator: Type.Optional(
      Type.Literal(true, {
        description: 'The caller may have every name, as a key without `domains`.',
      }),
    ),
    rights: Rights(
      'What the caller may do. Default: issue, read and renew with `domains`, otherwise everything.',
    ),
    profile: ProfileOf(
      'The certificates that `domains` are about. Default: `server`. The caller also has its own client certificate.',
    ),
    lifetime: Type.Optional(
      Lifetime('Lifetime of what it gets of the embedded CA, and the longest that it may ask for.'),
    ),
  },
  { exactlyOne: [NAME_KINDS, ['domains', 'operator']], needs: { profile: ['domains'] } },
)

const HeaderSchema = Type.Object(
  {
    format: Type.Enum([...PROXY_NAMES], {
      description: `The proxy: ${PROXY_NAMES.map(
        (name) => `\`${name}\` writes \`${PROXIES[name].clientCertificate.header}\``,
      ).join(', ')}.`,
    }),
  },
  {
    description:
      'The header in which each proxy of `server.trustedProxies` tells the certificate of its client; ' +
      'the certificate of the proxy itself does not count then. Default: none.',
  },
)

export const MtlsSchema = Type.Object(
  {
    callers: Type.Array(CallerSchema, {
      minItems: 1,
      description: 'The callers, each by one name of its certificate.',
    }),
    caFile: Type.Optional(
      FilePath(
        'PEM certificates of what signs the certificates of callers itself, instead of the embedded ' +
          'CA. Its revocation lists are not read: take a caller out instead.',
      ),
    ),
    header: Type.Optional(HeaderSchema),
  },
  { description: 'Callers with a client certificate, in requests without `Authorization`.' },
)

type MtlsConfig = Static<typeof MtlsSchema>
type Row = Static<typeof CallerSchema>

export interface CertificateCaller
  extends Pick<Row, 'domains' | 'rights' | 'profile' | 'lifetime'> {
  readonly method: 'mtls'
  /** Name of the row. */
  readonly subject: string
}

/** The callers by the name of their certificates. Names of different kinds are never equal. */
export function certificateCallersOf(mtls?: MtlsConfig): ReadonlyMap<string, CertificateCaller> {
  const rows = mtls?.callers ?? []
  return new Map(
    rows.map((row) => {
      const { name: subject, dns: _, email: __, uri: ___, operator: ____, ...limits } = row
      return [nameOf(row).text, { ...limits, method: 'mtls', subject }]
    }),
  )
}

function nameOf(row: Pick<Row, 'dns' | 'email' | 'uri'>): Name {
  const kind = NAME_KINDS.find((kind) => kind in row) ?? 'dns'
  const name = parseClientName(row[kind] ?? '')
  if (name.kind !== kind) throw new Error(`has another name than ${kind}: ${name.text}`)
  return name
}

interface Listening {
  readonly tls: unknown
  readonly trustedProxies?: readonly string[]
}

/** @param method - the only one of auth-core that counts, if there is one */
export function checkMtls(
  mtls: MtlsConfig,
  method: string | undefined,
  { tls, trustedProxies = LOOPBACK_NETWORKS }: Listening,
): Fault[] {
  const isNobody = trustedProxies.length === 0
  const isLocal =
    !isNobody && trustedProxies.every((proxy) => /^(127\.|::1(\/|$)|localhost\.?$)/i.test(proxy))
  const isPlain = tls === 'off' || tls === 'insecure'
  return applyRules(
    mtls,
    [
      ({ callers }) => checkUnique('/callers', callers),
      checkRows,
      () => faultIf(method !== undefined, '', 'does not count with `auth.method`: omit that'),
      ({ header }) => faultIf(isPlain && !header, '', 'needs HTTPS, or the `header` of a proxy'),
      ({ header }) =>
        faultIf(!!header && isNobody, '/header', `counts from no address: ${LIST_IT}`),
      ({ header }) => (header && isLocal ? [LOCAL_HEADER] : []),
    ],
    '/auth/mtls',
  )
}

function checkRows({ callers }: MtlsConfig): Fault[] {
  const texts = new Set<string>()
  return applyToEach(callers, '/callers', [
    (row) =>
      faultOf('', () => {
        const { text } = nameOf(row)
        if (texts.has(text)) throw new Error(`has the name of an earlier caller: ${text}`)
        texts.add(text)
      }),
  ])
}

const LIST_IT = 'list the proxy in server.trustedProxies'

const LOCAL_HEADER: Fault = {
  path: '/header',
  message: `counts from every program on this machine, which can claim to be any caller: ${LIST_IT}`,
  isWarning: true,
}
