import type { FastifyReply } from 'fastify'
import type { Page } from '../pages/pages.ts'

/** Answers with a page, which no cache keeps and no other site frames. */
export function sendPage(
  reply: FastifyReply,
  status: number,
  { html, policy }: Page,
): FastifyReply {
  return reply
    .code(status)
    .headers({
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy': policy,
      'x-content-type-options': 'nosniff',
      'cache-control': 'no-store',
      'x-robots-tag': 'noindex',
      // With `no-referrer`, browsers would send the logout form with `Origin: null`.
      'referrer-policy': 'same-origin',
    })
    .send(html)
}
