import { PROFILES } from '@gatehouse/pki'
import { Duration, OptionalList } from '@gatehouse/service-kit/config'
import { Type } from 'typebox'

export const RIGHTS = ['issue', 'read', 'renew', 'revoke', 'delete'] as const

export type Right = (typeof RIGHTS)[number]

export const Rights = (description: string) => OptionalList(Type.Enum([...RIGHTS]), description)

export const ProfileOf = (description: string) =>
  Type.Optional(Type.Enum([...PROFILES], { description }))

/** A lifetime of at most `ca.maxLifetime`, loaded as milliseconds. */
export const Lifetime = (description: string) => Duration({ from: '1h', to: '180d', description })
