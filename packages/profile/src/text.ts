import type { Profile } from './schema.ts'

/** The profile as a page of plain text. What the provider did not share has no line. */
export function toText({ id, provider, name, email, picture, groups }: Profile): string {
  const lines = [
    'Authenticated',
    '',
    `ID: ${id}`,
    `Provider: ${provider}`,
    ...section('Name:', [
      name?.full && `   Full Name: ${name.full}`,
      name?.first && `   First: ${name.first}`,
      name?.last && `   Last: ${name.last}`,
    ]),
    ...section('Email:', [
      email && `   Address: ${email.address}`,
      email && `   Verified: ${email.verified}`,
    ]),
    ...(picture ? [`Picture: ${picture}`] : []),
    ...section('Groups:', groups?.map((group) => `  - ${group}`) ?? []),
  ]
  return `${lines.join('\n')}\n`
}

/** The heading and its lines, or nothing at all. */
function section(heading: string, lines: readonly (string | undefined)[]): string[] {
  const shared = lines.filter((line) => line !== undefined)
  return shared.length > 0 ? [heading, ...shared] : []
}
