// The names that a request asks for.
import { isAscii } from 'node:buffer'
import { type CsrFields, fail, type SubjectAttribute } from './csr-fields.ts'
import { children, readAll } from './der.ts'
import { readGeneralName } from './extensions.ts'
import { type Name, parseName } from './names.ts'

const MAX_NAMES = 100
const SUBJECT_ALT_NAME = '2.5.29.17'
const COMMON_NAME = '2.5.4.3'

/**
 * Those of the subject alternative name, then the common name if it is one, each once.
 *
 * @throws PkiError `PKI_CSR_INVALID`, `PKI_NAME_INVALID`, `PKI_CERTIFICATE_INVALID`
 */
export function namesOf({ extensions, subject }: CsrFields): Name[] {
  const altName = extensions.find(({ id }) => id === SUBJECT_ALT_NAME)
  const [list, ...more] = altName ? readAll(altName.value) : []
  if (more.length > 0 || (list && list.tag !== 0x30)) fail('its names are not one list')
  const altNames = children(list)
  if (altNames.length > MAX_NAMES) fail(`it asks for more than ${MAX_NAMES} names`)
  const names = [...altNames.map(readGeneralName), ...subject.flatMap(commonNameOrNone)]
  return [...new Map(names.map((name) => [name.text, name])).values()]
}

/**
 * The name in an attribute of a subject; none where it is another attribute, or no name.
 *
 * @throws PkiError `PKI_CSR_INVALID` for a common name that is no text
 */
export function commonNameOrNone({ id, value }: SubjectAttribute): Name | [] {
  if (id !== COMMON_NAME) return []
  const text = (READERS[value.tag] ?? fail('its common name is not a text'))(value.content)
  try {
    return parseName(text)
  } catch {
    return []
  }
}

const UTF_8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** By the tag of the text (RFC 5280 section 4.1.2.4). */
const READERS: Readonly<Record<number, (content: Buffer) => string>> = {
  12: readUtf8,
  19: readAscii,
  20: (content) => content.toString('latin1'),
  22: readAscii,
  28: (content) => readUnits(content, 4),
  30: (content) => readUnits(content, 2),
}

function readUtf8(content: Buffer): string {
  try {
    return UTF_8.decode(content)
  } catch {
    return fail('its common name is not UTF-8')
  }
}

function readAscii(content: Buffer): string {
  return isAscii(content) ? content.toString('latin1') : fail('its common name is not ASCII')
}

/** UCS-2 or UCS-4, each character of as many bytes. */
function readUnits(content: Buffer, size: number): string {
  if (content.length % size > 0) fail('its common name ends within a character')
  let text = ''
  for (let at = 0; at < content.length; at += size) {
    const unit = content.readUIntBE(at, size)
    if (unit > 0x10ffff) fail('its common name has a character that does not exist')
    text += String.fromCodePoint(unit)
  }
  return text
}
