import { crc32, deflateSync } from 'node:zlib'

const bytes = (...parts: (string | number[] | Buffer)[]) =>
  Buffer.concat(
    parts.map((part) =>
      typeof part === 'string' ? Buffer.from(part, 'latin1') : Buffer.from(part),
    ),
  )

const uint32 = (value: number) => [24, 16, 8, 0].map((shift) => (value >>> shift) & 255)

function chunk(name: string, data: Buffer): Buffer {
  const body = bytes(name, data)
  return bytes(uint32(data.length), body, uint32(crc32(body)))
}

/** A grey rectangle. */
export function pngOf(width: number, height: number): Buffer {
  const rows = Buffer.alloc((width + 1) * height, 0x80)
  for (let row = 0; row < height; row += 1) rows[row * (width + 1)] = 0
  return bytes(
    [0x89],
    'PNG\r\n\u001a\n',
    chunk('IHDR', bytes(uint32(width), uint32(height), [8, 0, 0, 0, 0])),
    chunk('IDAT', deflateSync(rows)),
    chunk('IEND', Buffer.alloc(0)),
  )
}

export const PNG = pngOf(40, 10)
export const JPEG = bytes([0xff, 0xd8, 0xff, 0xe0, 0, 16], 'JFIF')
export const WEBP = bytes('RIFF', [26, 0, 0, 0], 'WEBPVP8L', [14, 0, 0, 0], Buffer.alloc(14))
/** A directory of one image, which is a PNG. */
export const ICO = bytes(
  [0, 0, 1, 0, 1, 0, 40, 10, 0, 0, 1, 0, 8, 0, PNG.length, 0, 0, 0, 22, 0, 0, 0],
  PNG,
)
/** Twice as wide as high, of no size of its own, in a colour for each scheme. */
export const SVG = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 80 40"><style>rect{fill:#4256d0}@media(prefers-color-scheme:dark){rect{fill:#fff}}</style><rect width="80" height="40" rx="8"/></svg>`
