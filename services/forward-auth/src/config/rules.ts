import { parseCidr } from '@gatehouse/net'
import { applyToEach, type Fault, isWhole, known } from '@gatehouse/service-kit'
import { isNormalPath } from '../check/paths.ts'
import { ANYONE, type RuleConfig, SIGNED_IN, shadowedRules } from '../check/rules.ts'
import { checkHosts, type Domains } from './hosts.ts'
import type { PortalConfig } from './schema.ts'

/** The faults of `rules`. A rule that no request reaches is a warning. */
export function checkRules(
  { rules, policies }: Pick<PortalConfig, 'rules' | 'policies'>,
  domains: Domains,
): Fault[] {
  const named = known(() => Object.keys(policies)) ?? []
  const faults = applyToEach(rules, '/rules', [
    ({ hosts }) => checkHosts(hosts, '/hosts', domains),
    ({ paths = [] }) => applyToEach(paths, '/paths', [checkPath]),
    ({ from = [] }) => applyToEach(from, '/from', [checkNetwork]),
    ({ require }) => checkRequire(require, named),
  ])
  return isWhole(rules) ? [...faults, ...checkShadowed(rules)] : faults
}

/** A pattern that is not normal would fit no path: those of requests are normal, or fit no pattern. */
function checkPath(pattern: string): Fault[] {
  if (!pattern.startsWith('/')) return [{ path: '', message: 'must begin with `/`' }]
  if (pattern.includes('%'))
    return [{ path: '', message: 'must be written decoded: paths are compared without `%`' }]
  const isPlain = !/[*]/.test(pattern.replaceAll(/(?<=\/)\*(?=\/|$)/g, ''))
  if (!isPlain) return [{ path: '', message: 'has a `*` that is not a whole segment' }]
  if (!pattern.includes('?') && isNormalPath(pattern)) return []
  const message =
    'is not a normal path: it has `//`, a dot segment, a dot at an end, `;`, `?` or `#`'
  return [{ path: '', message }]
}

function checkNetwork(text: string): Fault[] {
  if (parseCidr(text)) return []
  return [{ path: '', message: 'is not an IP address or network, such as 10.0.0.0/8' }]
}

function checkRequire(require: RuleConfig['require'], named: readonly string[]): Fault[] {
  const isKnown = (name: string) => named.includes(name)
  if (typeof require === 'string') {
    if ([ANYONE, SIGNED_IN].includes(require) || isKnown(require)) return []
    const message = `is neither \`${ANYONE}\`, \`${SIGNED_IN}\` nor a policy: ${require}`
    return [{ path: '/require', message }]
  }
  return applyToEach(require, '/require', [
    (name) => (isKnown(name) ? [] : [{ path: '', message: `is no policy: ${name}` }]),
  ])
}

function checkShadowed(rules: readonly RuleConfig[]): Fault[] {
  return shadowedRules(rules).map(({ index, by }) => ({
    path: `/rules/${index}`,
    message: 'never decides: every request that it fits, an earlier rule fits first',
    other: `/rules/${by}`,
    isWarning: true,
  }))
}
