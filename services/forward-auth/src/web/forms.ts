import type { FastifyInstance } from 'fastify'

/** The type with which browsers send forms. */
export const FORM = 'application/x-www-form-urlencoded'

/** Takes forms as bodies: an object with the fields. */
export function acceptForms(app: FastifyInstance): void {
  app.addContentTypeParser(FORM, { parseAs: 'string' }, (_request, text, done) =>
    done(null, Object.fromEntries(new URLSearchParams(String(text)))),
  )
}
