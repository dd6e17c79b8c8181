/** The requests that a rule of Traefik fits, in the members of our rules. */
interface Fits {
  readonly hosts?: readonly string[]
  readonly paths?: readonly string[]
  readonly methods?: readonly string[]
}

const MATCHER = /^(\w+)\(\s*((?:`[^`]*`|"[^"]*")(?:\s*,\s*(?:`[^`]*`|"[^"]*"))*)\s*\)$/
const PATH = /^(\/[\w.~-]+)*\/?$/

/**
 * Reads a rule of Traefik that joins `Host`, `Path`, `PathPrefix` and `Method` by `&&` and `||`, without
 * parentheses. Undefined if ours cannot say the same.
 * @param isOpen - whether the rule opens something: then it may fit less, else it may fit more
 */
export function readMatchers(text: string, isOpen: boolean): Fits[] | undefined {
  const alternatives = text.split('||').map((part) => readAll(part.split('&&'), isOpen))
  return alternatives.every((alternative) => alternative !== undefined) ? alternatives : undefined
}

function readAll(parts: readonly string[], isOpen: boolean): Fits | undefined {
  const members = parts.map((part) => readOne(part.trim(), isOpen))
  if (members.some((member) => member === undefined)) return undefined
  const keys = members.flatMap((member) => Object.keys(member ?? {}))
  // Two matchers of the same kind would both have to hold.
  return new Set(keys).size === keys.length ? Object.assign({}, ...members) : undefined
}

function readOne(text: string, isOpen: boolean): Fits | undefined {
  const [, name, list = ''] = MATCHER.exec(text) ?? []
  const values = [...list.matchAll(/`([^`]*)`|"([^"]*)"/g)].map(
    ([, raw, quoted]) => raw ?? quoted ?? '',
  )
  if (name === 'Host')
    return values.every((host) => /^[\w.-]+$/.test(host)) ? { hosts: values } : undefined
  if (name === 'Method') return { methods: values.map((method) => method.toUpperCase()) }
  if (values.some((path) => !PATH.test(path) || /(^|\/)\.{1,2}(\/|$)/.test(path))) return undefined
  if (name === 'Path') return { paths: values.map(plain) }
  if (name !== 'PathPrefix') return undefined
  // `/x` is the start of `/x-other` too, which `/x/*` does not fit.
  const isExact = values.every((path) => path.endsWith('/'))
  if (!isExact && !isOpen) return undefined
  if (values.includes('/')) return {}
  // What is below `/x/` is not `/x`.
  const end = (path: string) => (isOpen && path.endsWith('/') ? '/*/*' : '/*')
  return { paths: values.map((path) => plain(path) + end(path)) }
}

const plain = (path: string) => (path === '/' ? path : path.replace(/\/$/, ''))
