import fc from 'fast-check'
import t from 'tap'
import { fromClaims, toText } from '../../src/index.ts'
import { ADA } from '../ada.ts'
import { identifiedClaims } from '../arbitrary.ts'

const SAMPLE = `Authenticated

ID: 5f0c2c1e
Provider: corp
Name:
   Full Name: Ada Lovelace
   First: Ada
   Last: Lovelace
Email:
   Address: ada@example.com
   Verified: true
Picture: https://example.com/ada.png
Groups:
  - admin
  - ops
`
const HEAD = 'Authenticated\n\nID: 1\nProvider: corp\n'

const page = (claims: Record<string, unknown>) => toText(fromClaims('corp', claims))

t.test('the text of the sample is right', async (t) => t.equal(page(ADA), SAMPLE))

t.test('a field that is not shared has no line', async (t) => {
  const pages: [why: string, claims: object, lines: string][] = [
    ['nothing', {}, ''],
    ['empty values', { name: '', email: '', picture: '', groups: [] }, ''],
    ['unusable values', { name: 7, email: 'a@b@c', picture: 'x:y', groups: { a: 1 } }, ''],
    ['a full name', { name: 'Ada' }, 'Name:\n   Full Name: Ada\n'],
    [
      'a last name',
      { family_name: 'Lovelace' },
      'Name:\n   Full Name: Lovelace\n   Last: Lovelace\n',
    ],
    ['an address', { email: 'a@b' }, 'Email:\n   Address: a@b\n   Verified: false\n'],
    ['one group', { groups: 'ops' }, 'Groups:\n  - ops\n'],
    ['roles have none', { roles: ['admin'], department: 'x' }, ''],
  ]
  for (const [why, claims, lines] of pages)
    t.equal(page({ sub: '1', ...claims }), HEAD + lines, why)
})

const LINE =
  /^(Authenticated||ID: 5f0c2c1e|Provider: corp|Name:| {3}(Full Name|First|Last): .+|Email:| {3}Address: [^\s@]+@[^\s@]+| {3}Verified: (true|false)|Picture: https?:\S+|Groups:| {2}- .+)$/u
// Every place where a reader may begin a new line.
const LINE_BREAK = /[\p{Cc}\p{Zl}\p{Zp}]/u

t.test('no claim can forge a line', async (t) => {
  const forged = page({
    ...ADA,
    name: 'x\nID: root',
    groups: ['a\n  - root', 'b'],
    email: 'a@b\nc',
  })
  t.notMatch(forged, /^(ID: root| {2}- root)$/m)

  fc.assert(
    fc.property(identifiedClaims, (claims) => {
      const profile = fromClaims('corp', claims)
      const lines = toText(profile).slice(0, -1).split(LINE_BREAK)
      const { name = {}, email, picture, groups } = profile
      const section = (count: number) => (count > 0 ? count + 1 : 0)
      const expected =
        4 +
        section(Object.keys(name).length) +
        section(email ? 2 : 0) +
        (picture ? 1 : 0) +
        section(groups?.length ?? 0)
      return lines.length === expected && lines.every((line) => LINE.test(line))
    }),
    { numRuns: 1_000 },
  )
})
