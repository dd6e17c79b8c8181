import { Type } from 'typebox'
import { type Answer, readJson, readUrl } from './answer.ts'

/** What a CA offers (RFC 8555 section 7.1.1). */
export interface Directory {
  readonly newNonce: URL
  readonly newAccount: URL
  readonly newOrder: URL
  readonly revokeCert?: URL
  readonly keyChange?: URL
  /** ARI (RFC 9773). */
  readonly renewalInfo?: URL
  readonly meta: {
    readonly termsOfService?: string
    readonly externalAccountRequired?: boolean
    /** The names of the profiles, and what the CA says of each. */
    readonly profiles?: Readonly<Record<string, string>>
    /** What a CAA record may call the CA. */
    readonly caaIdentities?: readonly string[]
  }
}

const DirectorySchema = Type.Object({
  newNonce: Type.String(),
  newAccount: Type.String(),
  newOrder: Type.String(),
  revokeCert: Type.Optional(Type.String()),
  keyChange: Type.Optional(Type.String()),
  renewalInfo: Type.Optional(Type.String()),
  meta: Type.Optional(
    Type.Object({
      termsOfService: Type.Optional(Type.String({ pattern: '^[!-~]{1,1000}$' })),
      externalAccountRequired: Type.Optional(Type.Boolean()),
      profiles: Type.Optional(Type.Record(Type.String(), Type.String())),
      caaIdentities: Type.Optional(Type.Array(Type.String())),
    }),
  ),
})

export function readDirectory(answer: Answer): Directory {
  const { newNonce, newAccount, newOrder, revokeCert, keyChange, renewalInfo, meta } = readJson(
    answer,
    DirectorySchema,
    'an ACME directory',
  )
  const url = (text: string) => readUrl(text, answer)
  return {
    newNonce: url(newNonce),
    newAccount: url(newAccount),
    newOrder: url(newOrder),
    ...(revokeCert && { revokeCert: url(revokeCert) }),
    ...(keyChange && { keyChange: url(keyChange) }),
    ...(renewalInfo && { renewalInfo: url(renewalInfo) }),
    meta: meta ?? {},
  }
}
