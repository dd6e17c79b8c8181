import { createHash } from 'node:crypto'
import { attempt } from '@gatehouse/net'
import { readNamedFile } from '@gatehouse/service-kit/config'
import { SaxesParser } from 'saxes'

/** An image of a portal, as it is served. */
export interface Image {
  /** Part of its URL: the digest of its content, and the usual suffix of its format. */
  readonly name: string
  /** Media type. */
  readonly type: string
  readonly bytes: Buffer
}

/** The formats and sizes of each kind of image. Larger ones make pages slow. */
const KINDS = {
  logo: { formats: ['png', 'svg', 'webp', 'jpg'], maxBytes: 262_144 },
  favicon: { formats: ['png', 'svg', 'ico'], maxBytes: 65_536 },
  icon: { formats: ['png', 'svg', 'webp', 'jpg'], maxBytes: 65_536 },
} as const satisfies Record<string, { formats: readonly Format[]; maxBytes: number }>

export type ImageKind = keyof typeof KINDS

/** Formats by the suffix of their names. Names of files say nothing; the content decides. */
const FORMATS = {
  png: { name: 'PNG', type: 'image/png', fits: isPng },
  jpg: { name: 'JPEG', type: 'image/jpeg', fits: startsWith([0xff, 0xd8, 0xff]) },
  webp: { name: 'WebP', type: 'image/webp', fits: isWebp },
  ico: { name: 'ICO', type: 'image/x-icon', fits: isIco },
  svg: { name: 'SVG', type: 'image/svg+xml; charset=utf-8', fits: startsAsXml },
} as const

type Format = keyof typeof FORMATS

/** An image, or what is wrong with its file as the end of a sentence that begins with the key. */
type ReadImage = { readonly image: Image } | { readonly fault: string; readonly absent: boolean }

export function readImage(kind: ImageKind, file: string): ReadImage {
  const { formats, maxBytes } = KINDS[kind]
  const content = readNamedFile(file, maxBytes)
  if ('fault' in content) return content
  const { bytes } = content
  const format = formats.find((name) => FORMATS[name].fits(bytes))
  if (format === undefined) {
    const names = formats.map((key) => FORMATS[key].name)
    return { fault: `names a file that is none of ${names.join(', ')}`, absent: false }
  }
  const fault = format === 'svg' ? svgFault(bytes) : undefined
  if (fault !== undefined) return { fault: `names an SVG file ${fault}`, absent: false }
  const digest = createHash('sha256').update(bytes).digest('hex').slice(0, 16)
  return { image: { name: `${digest}.${format}`, type: FORMATS[format].type, bytes } }
}

const SVG = 'http://www.w3.org/2000/svg'
const MAX_REASON = 100

/** The reason why browsers do not show a file as SVG. Scripts are none: they cannot run. */
function svgFault(bytes: Buffer): string | undefined {
  const text = attempt(() => new TextDecoder('utf-8', { fatal: true }).decode(bytes))
  if (text === undefined) return 'that is not UTF-8'
  let root: string | undefined
  const parser = new SaxesParser({ xmlns: true })
  parser.on('opentag', ({ local, uri }) => {
    root ??= `${uri} ${local}`
  })
  parser.on('error', (error) => {
    throw error
  })
  try {
    parser.write(text).close()
  } catch (error) {
    return `that is not well-formed XML (${(error as Error).message.slice(0, MAX_REASON)})`
  }
  return root === `${SVG} svg` ? undefined : `whose root is not <svg xmlns="${SVG}">`
}

function startsAsXml(bytes: Buffer): boolean {
  return /^(\xef\xbb\xbf)?\s*</.test(bytes.toString('latin1', 0, 256))
}

function startsWith(signature: readonly number[]) {
  return (bytes: Buffer) => signature.every((byte, index) => bytes[index] === byte)
}

/** The signature, and a header with a width and a height (PNG sections 5.2 and 11.2.1). */
function isPng(bytes: Buffer): boolean {
  const isSigned = startsWith([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])(bytes)
  if (!isSigned || bytes.length < 33 || bytes.toString('latin1', 12, 16) !== 'IHDR') return false
  return bytes.readUInt32BE(16) > 0 && bytes.readUInt32BE(20) > 0
}

/** A RIFF container that is whole (RFC 9649 section 2.4). */
function isWebp(bytes: Buffer): boolean {
  const header = bytes.toString('latin1', 0, 16)
  return /^RIFF.{4}WEBPVP8[ LX]$/s.test(header) && bytes.readUInt32LE(4) + 8 <= bytes.length
}

/** A directory of images that are in the file. */
function isIco(bytes: Buffer): boolean {
  if (!startsWith([0, 0, 1, 0])(bytes) || bytes.length < 6) return false
  const count = bytes.readUInt16LE(4)
  const end = 6 + 16 * count
  if (count === 0 || bytes.length < end) return false
  return Array.from({ length: count }, (_, index) => 6 + 16 * index).every((entry) => {
    const size = bytes.readUInt32LE(entry + 8)
    const offset = bytes.readUInt32LE(entry + 12)
    return size > 0 && offset >= end && offset + size <= bytes.length
  })
}
