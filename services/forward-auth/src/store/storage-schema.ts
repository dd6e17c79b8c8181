import { Duration, FilePath, Secret } from '@gatehouse/service-kit/config'
import { SCHEMA_PATTERN } from '@gatehouse/store'
import { type Static, Type } from 'typebox'

const NOT_WITH_PATH = 'is for PostgreSQL, and needs `url` in place of `path`'

const FolderSchema = Type.Object(
  {
    path: FilePath('Folder for generated keys, the sessions and the audit trail.', {
      default: 'data',
    }),
  },
  {
    removed: {
      urlFile: 'is given together with path: keep one of the two',
      ...Object.fromEntries(
        ['caFile', 'schema', 'revocationStaleness', 'whenStale'].map((key) => [key, NOT_WITH_PATH]),
      ),
    },
  },
)

const PostgresSchema = Type.Object(
  {
    url: Secret(
      'PostgreSQL instead of a folder, for instances on several machines: ' +
        '`postgres://user:password@host:5432/database`. Separate several hosts with commas: the ' +
        'service uses the first one that accepts writes. The connection uses TLS with a ' +
        'verified certificate, unless the host is loopback or the URL has `?sslmode=disable`. ' +
        'Needs `session.keys`.',
    ),
    caFile: Type.Optional(
      FilePath('CA certificates of the database in PEM. Default: those of the system.'),
    ),
    schema: Type.String({
      pattern: SCHEMA_PATTERN,
      default: 'gatehouse_auth',
      description: 'Schema of the tables, which is created if necessary.',
    }),
    revocationStaleness: Duration({
      default: '60s',
      from: '5s',
      to: '24h',
      description:
        'How long an instance that cannot reach the database continues with the sign-outs that it knows.',
    }),
    whenStale: Type.Enum(['refuse', 'allow'], {
      default: 'refuse',
      description:
        'What happens after that: `refuse` answers 503 to every check of a session until the ' +
        'database is back; `allow` continues, so a session that was signed out at another ' +
        'instance is still accepted.',
    }),
  },
  { removed: { path: 'is given together with url: keep one of the two' } },
)

// This order: `url` decides which of the two is meant.
export const StorageSchema = Type.Union([PostgresSchema, FolderSchema], {
  default: {},
  description: 'Where the service keeps its state.',
})

export type StorageConfig = Static<typeof StorageSchema>
export type PostgresConfig = Static<typeof PostgresSchema>
