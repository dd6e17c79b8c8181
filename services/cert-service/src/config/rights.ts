import { Type } from 'typebox'

export const RIGHTS = ['issue', 'read', 'renew', 'revoke', 'delete'] as const

export type Right = (typeof RIGHTS)[number]

export const Rights = (description: string) =>
  Type.Optional(Type.Array(Type.Enum([...RIGHTS]), { minItems: 1, description }))

export const PROFILES = ['server', 'client'] as const

export const ProfileOf = (description: string) =>
  Type.Optional(Type.Enum([...PROFILES], { description }))
