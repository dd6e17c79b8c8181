import { Duration, FilePath, optional, Text } from '@gatehouse/service-kit/config'
import { type Static, Type } from 'typebox'

/** The options of the embedded CA. */
export const CaSchema = Type.Object({
  name: Text('Prefix of the common names of generated root and intermediate.', {
    maxLength: 40,
    default: 'Gatehouse',
  }),
  ...optional({
    root: Type.Object(
      {
        certFile: FilePath('Root certificate in PEM.'),
        keyFile: Type.Optional(
          FilePath('Its key in PEM, which is read only to sign an intermediate.'),
        ),
      },
      { description: 'Your own root.' },
    ),
    intermediate: Type.Object(
      {
        certFile: FilePath('Intermediate in PEM, followed by its issuers.'),
        keyFile: FilePath('Its key in PEM.'),
      },
      { description: 'Your own intermediate.' },
    ),
  }),
  permitted: Type.Array(Type.String({ minLength: 1 }), {
    default: [],
    description:
      'Name rules that the CA is limited to, also by a name constraint. Default: any name.',
  }),
  crlUrl: Type.Optional(
    Text('http URL of `/ca/crl.der` for clients; used as the CRL distribution point.'),
  ),
  leafLifetime: Duration({
    default: '7d',
    from: '1h',
    to: '180d',
    description:
      'Lifetime of certificates for which neither a request nor a rule says another one.',
  }),
  maxLifetime: Type.Optional(
    Duration({
      from: '1h',
      to: '180d',
      description:
        'The longest lifetime that requests and rules may ask for. Default: `leafLifetime`.',
    }),
  ),
})

export type CaConfig = Static<typeof CaSchema>
