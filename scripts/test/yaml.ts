import { parseAllDocuments } from 'yaml'

/** The documents of a file, with what they merge. */
export const documentsOf = (text: string) =>
  parseAllDocuments(text, { version: '1.1', merge: true }).map((document) => document.toJS())

/** Every value of a member, at any depth. */
export function membersOf(tree: unknown, key: string): unknown[] {
  if (typeof tree !== 'object' || tree === null) return []
  return Object.entries(tree).flatMap(([name, member]) => [
    ...(name === key ? [member] : []),
    ...membersOf(member, key),
  ])
}
