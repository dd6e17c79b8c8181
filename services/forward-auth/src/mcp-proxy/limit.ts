import type { Principal } from '@gatehouse/gate'
import type { FastifyInstance } from 'fastify'
import type { Check } from '../check/check-answers.ts'
import { LISTING } from './message.ts'

/** The units of limits, in ms. */
const TIMES = { s: 1_000, m: 60_000, h: 3_600_000 } as const

/** Counts a call for each rule that limits it. @throws FwaError FWA_RATE_LIMITED */
export function limitCall(
  { portal, rules, forwarded }: Check,
  principal: Principal,
  server: FastifyInstance,
) {
  if (forwarded.mcp === LISTING) return
  for (const rule of rules) {
    const { limit } = rule
    if (limit === undefined) continue
    const [count, unit = ''] = limit.split('/')
    const rate = {
      burst: Number(count),
      interval: TIMES[unit as keyof typeof TIMES] / Number(count),
    }
    const index = portal.gate.rules.findIndex(({ config }) => config === rule)
    const sender = `${principal.caller} ${principal.identity.client}`
    const message = `more than ${limit}, which a rule allows`
    server.signInRate.require(`calls of ${portal.name} ${index} ${sender}`, message, rate)
  }
}
