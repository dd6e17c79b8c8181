import cookie from '@fastify/cookie'
import Fastify from 'fastify'
import { type HostCookie, setHostCookies } from '../../src/web/cookies.ts'

/** The Cookie header of a browser that has only this cookie. */
export const sent = ({ name, value }: HostCookie) => `${name}=${value}`

/** The Set-Cookie headers of a response with these cookies. */
export async function headersOf(...cookies: HostCookie[]): Promise<string[]> {
  const app = Fastify()
  await app.register(cookie)
  app.get('/', async (_request, reply) => {
    setHostCookies(reply, cookies)
    return ''
  })
  const { headers } = await app.inject('/')
  await app.close()
  return [headers['set-cookie'] ?? []].flat()
}
