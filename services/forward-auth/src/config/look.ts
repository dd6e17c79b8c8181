import { parseEndpointUrl } from '@gatehouse/net'
import { FilePath } from '@gatehouse/service-kit/config'
import { LANGUAGES } from '@gatehouse/service-kit/pages'
import { type Fault, faultOf } from '@gatehouse/service-kit/rules'
import { Type } from 'typebox'
import { type ImageKind, readImage } from '../pages/images.ts'

const WrittenText = (description?: string) =>
  Type.String({ minLength: 1, maxLength: 300, ...(description && { description }) })

/** A text, or one for each language. */
const Localized = (description: string) =>
  Type.Union(
    [
      WrittenText(),
      Type.Object(
        Object.fromEntries(
          LANGUAGES.map((tag) => [tag, Type.Optional(WrittenText(`The text in \`${tag}\`.`))]),
        ),
        { minProperties: 1 },
      ),
    ],
    { description },
  )

export const PageTextsSchema = Type.Object(
  {
    title: Type.Optional(Localized('Heading of the sign-in page.')),
    intro: Type.Optional(Localized('Below that heading.')),
    footer: Type.Optional(Localized('Below the pages for signing in and out.')),
  },
  {
    description:
      'Your own texts on the pages: each is one text, or a text for each language. If a ' +
      'language is missing, the English text is used, or else the first one.',
  },
)

export const ContactSchema = Type.String({
  pattern: '^[^<>"&\\p{C}]{1,80}$',
  description:
    'Contact on the pages of errors and refusals: `mailto:help@example.com`, an `https://` address, or a text.',
})

export const LogoSchema = FilePath(
  'Image on its pages instead of the gate and the title: PNG, SVG, WebP or JPEG of at most ' +
    '256 KiB. Read at the start and at each reload.',
)

export const FaviconSchema = FilePath(
  'Icon of its pages in tabs: PNG, SVG or ICO of at most 64 KiB. Read at the start and at each reload.',
)

/** The faults of an image whose key is its kind. */
export function checkImage<Kind extends ImageKind>(kind: Kind) {
  return ({ [kind]: file }: { readonly [key in Kind]?: string }): Fault[] => {
    if (file === undefined) return []
    const result = readImage(kind, file)
    if (!('fault' in result)) return []
    return [{ path: `/${kind}`, message: `${result.fault}: ${file}`, absent: result.absent }]
  }
}

/** The faults of `contact`: what looks like an address is one that people can open. */
export function checkContact({ contact }: { readonly contact?: string }): Fault[] {
  if (contact === undefined || !/^[a-z][a-z0-9+.-]*:\S/i.test(contact)) return []
  if (/^mailto:[^\s@?]+@[^\s@?]+$/.test(contact)) return []
  if (contact.startsWith('https://')) return faultOf('/contact', () => parseEndpointUrl(contact))
  return [
    { path: '/contact', message: 'is neither `mailto:` with an address, an https URL nor a text' },
  ]
}
