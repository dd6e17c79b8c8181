import { nameRulesOf } from '@gatehouse/issuance/options'
import { parseHost } from '@gatehouse/net'
import { parseNameRule } from '@gatehouse/pki'
import { Duration, OptionalList, optional } from '@gatehouse/service-kit/config'
import {
  applyToEach,
  checkNetwork,
  type Fault,
  faultIf,
  faultOf,
} from '@gatehouse/service-kit/rules'
import { PROTOCOLS, parsePort } from '@gatehouse/tls-probe'
import { type Static, Type } from 'typebox'
import { checkProfile } from './auth.ts'

const PORT = `a port such as \`:443\`, or one with what is spoken there, such as \`:25 smtp\`: ${PROTOCOLS.join(', ')}`
const NO_HOST = 'is about wildcards, which lead to no host: list `hosts` that serve them'

const TargetSchema = Type.Object({
  names: Type.Array(Type.String({ minLength: 1 }), {
    minItems: 1,
    description: 'Name rules, as in `rules`. The first target that matches a name counts.',
  }),
  ...optional({
    ports: Type.Array(Type.String(), {
      description: `The ports, each ${PORT}. Default: \`:443\`. With \`[]\`, nothing is connected to.`,
    }),
    hosts: OptionalList(
      Type.String({ minLength: 1 }),
      'Host names or addresses that serve the names. Default: each name itself. Wildcards have to have some.',
    ),
  }),
})

export const ProbeSchema = Type.Object(
  {
    networks: Type.Array(Type.String({ minLength: 1 }), {
      minItems: 1,
      description: 'Networks that may be connected to; nothing outside of them ever is.',
    }),
    interval: Duration({
      default: '1h',
      from: '10m',
      to: '1d',
      description: 'Time between two looks at a server. It varies by a quarter.',
    }),
    targets: Type.Array(TargetSchema, {
      default: [],
      description: 'Where names are served. Default: at port 443 of their addresses.',
    }),
  },
  {
    description:
      'Looks at which certificates servers serve under the names of this service. Default: off, and nothing is connected to.',
  },
)

export type ProbeConfig = Static<typeof ProbeSchema>

export function checkProbe({ networks, targets }: ProbeConfig): Fault[] {
  return [
    ...applyToEach(networks, '/probe/networks', [(text) => checkNetwork(text)]),
    ...applyToEach(targets, '/probe/targets', [
      ({ names }) =>
        applyToEach(names, '/names', [(text) => faultOf('', () => parseNameRule(text))]),
      ({ names }) => checkProfile(names, '/names', 'server'),
      ({ names, hosts, ports }) =>
        applyToEach(hosts || ports?.length === 0 ? [] : names, '/names', [
          (text) =>
            faultIf(nameRulesOf([text])[0]?.kind.startsWith('wildcard') ?? false, '', NO_HOST),
        ]),
      ({ ports = [] }) =>
        applyToEach(ports, '/ports', [(text) => faultIf(!parsePort(text), '', `is not ${PORT}`)]),
      ({ hosts = [] }) =>
        applyToEach(hosts, '/hosts', [
          (text) => faultIf(!parseHost(text), '', 'is neither a host name nor an IP address'),
        ]),
    ]),
  ]
}
