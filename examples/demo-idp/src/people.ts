/** A person: standard claims of OpenID Connect, and groups. */
export interface Person {
  readonly name: string
  readonly given_name: string
  readonly family_name: string
  readonly email: string
  readonly email_verified: boolean
  readonly groups: readonly string[]
}

/** The people who can sign in, by their identifier (`sub`). */
export const PEOPLE: ReadonlyMap<string, Person> = new Map([
  ['alice', person('Alice', 'Arden', ['admin', 'staff'])],
  ['bob', person('Bob', 'Birch', ['staff'])],
])

function person(given: string, family: string, groups: readonly string[]): Person {
  return {
    name: `${given} ${family}`,
    given_name: given,
    family_name: family,
    email: `${given.toLowerCase()}@example.com`,
    email_verified: true,
    groups,
  }
}
