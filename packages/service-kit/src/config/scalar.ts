import { resolve } from 'node:path'
import { readNamedFile } from './named-file.ts'
import { absent, check, fault, type Place, type Reading } from './reading.ts'
import { type ConfigSchema, durationMs, spanFault } from './schema.ts'

const MAX_SECRET_BYTES = 65_536

/** Expands, checks and decodes one scalar. */
export function readScalar(
  reading: Reading,
  schema: ConfigSchema,
  given: unknown,
  place: Place,
): unknown {
  const expanded = typeof given === 'string' ? expandEnv(reading, schema, given, place) : given
  if (expanded === undefined) return undefined
  const value = expanded === given ? given : fromText(schema, String(expanded))
  if (!check(reading, schema, value, place)) return undefined
  if (schema.duration) {
    const message = spanFault(schema, String(value))
    return message === undefined ? durationMs(String(value)) : fault(reading, place, message)
  }
  if (schema.filePath) return resolve(reading.folder, String(value))
  return value
}

/** The content of the file at that absolute path, as the value of a secret. */
export function readSecretFile(
  reading: Reading,
  schema: ConfigSchema,
  file: string,
  place: Place,
): string | undefined {
  const read = readNamedFile(file, MAX_SECRET_BYTES)
  if ('fault' in read) return (read.absent ? absent : fault)(reading, place, read.fault)
  reading.secretFiles.add(file)
  const secret = read.text.replace(/\r?\n$/, '')
  if (secret === '') return fault(reading, place, 'names a file that is empty')
  return check(reading, schema, secret, place) ? secret : undefined
}

function expandEnv(
  reading: Reading,
  schema: ConfigSchema,
  text: string,
  place: Place,
): string | undefined {
  let isComplete = true
  const expanded = text.replace(/\$\$|\$\{([^}]*)\}?/g, (match, name: string | undefined) => {
    if (name === undefined) return '$'
    const isName = /^[A-Za-z_]\w*$/.test(name) && match.endsWith('}')
    const value = isName ? reading.env[name] : undefined
    if (value !== undefined) return value
    isComplete = false
    const shown = isName && !schema.secret ? `$\{${name}}` : 'an environment variable'
    const why = isName ? 'is not set' : `is not written as $\{NAME}`
    const tell = isName && schema.secret ? absent : fault
    tell(reading, place, `needs ${shown}, which ${why} ($$ stands for a plain $)`)
    return ''
  })
  return isComplete ? expanded : undefined
}

/** A variable is always text: `port: ${PORT}` means the number that it spells. */
function fromText(schema: ConfigSchema, text: string): unknown {
  const isNumber = schema.type === 'integer' || schema.type === 'number'
  if (isNumber && /^-?\d+(\.\d+)?$/.test(text)) return Number(text)
  if (schema.type === 'boolean' && /^(true|false)$/.test(text)) return text === 'true'
  return text
}
