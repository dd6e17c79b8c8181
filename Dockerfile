# The images of Gatehouse: compiled JavaScript on a slim Node image. They run without root, need no shell and
# no package manager, and write only to their volumes.
#   docker build --target cert-service .     or forward-auth, or demo
# A release sets the digest of the base image, and its source.
ARG BASE=node:24-bookworm-slim
FROM ${BASE} AS build
ENV CI=true
RUN install -d -o node -g node /build
WORKDIR /build
USER node
COPY --chown=node:node package.json pnpm-lock.yaml pnpm-workspace.yaml ./
COPY --chown=node:node scripts/pnpm scripts/pnpm
RUN npm ci --prefix scripts/pnpm && scripts/pnpm/node_modules/.bin/pnpm fetch --prod
COPY --chown=node:node . .
# By this image's own Node: the compile cache is only for the same version and user.
RUN scripts/pnpm/node_modules/.bin/pnpm install --frozen-lockfile --offline --prod \
 && node --conditions=@gatehouse/source scripts/bundle.ts

FROM ${BASE} AS runtime
# A new volume gets the owner of the folder that it is mounted on.
RUN install -d -o node -g node -m 0700 /var/lib/gatehouse \
 && cd /var/lib/gatehouse \
 && install -d -o node -g node -m 0700 data keys proxy login session database \
 && install -d -o node -g node trust
WORKDIR /opt/gatehouse
# The user node by its number, since runAsNonRoot of Kubernetes does not know names.
USER 1000:1000
ENV NODE_ENV=production
ARG VERSION=0.1.0
ARG REVISION=
ARG SOURCE=
LABEL org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.source="${SOURCE}"

FROM runtime AS service
HEALTHCHECK --interval=5s --timeout=4s --start-period=10s --retries=3 \
  CMD ["node", "/opt/gatehouse/main.js", "healthcheck"]
# Node gives 16 MiB to new objects, three times over, which makes a busy service no faster and twice as large.
ENTRYPOINT ["node", "--max-semi-space-size=2", "/opt/gatehouse/main.js"]
CMD ["serve"]

FROM service AS cert-service
LABEL org.opencontainers.image.title="Gatehouse cert-service" \
      org.opencontainers.image.description="TLS certificates over HTTP, from an embedded private CA"
EXPOSE 7401
# The files belong to root, so that a compromised service cannot change them.
# The compile cache differs with each build, so it has its own layer.
COPY --chown=root:root --from=build /build/dist/cert-service/*.js /build/dist/cert-service/*.json /build/dist/cert-service/*.txt /build/dist/cert-service/LICENSE ./
COPY --chown=root:root --from=build /build/dist/cert-service/lib lib
COPY --chown=root:root --from=build /build/dist/cert-service/cache cache

FROM service AS forward-auth
LABEL org.opencontainers.image.title="Gatehouse forward-auth" \
      org.opencontainers.image.description="Single sign-on for what a reverse proxy serves"
EXPOSE 4181
COPY --chown=root:root --from=build /build/dist/forward-auth/*.js /build/dist/forward-auth/*.json /build/dist/forward-auth/*.txt /build/dist/forward-auth/LICENSE ./
COPY --chown=root:root --from=build /build/dist/forward-auth/lib lib
COPY --chown=root:root --from=build /build/dist/forward-auth/cache cache

FROM runtime AS demo
LABEL org.opencontainers.image.title="Gatehouse demo" \
      org.opencontainers.image.description="An identity provider and two apps to try Gatehouse with"
COPY --chown=root:root --from=build /build/dist/demo-idp demo-idp
COPY --chown=root:root --from=build /build/dist/apps apps
ENV HOST=0.0.0.0 PORT=8080
EXPOSE 8080
HEALTHCHECK --interval=5s --timeout=4s --start-period=10s --retries=3 \
  CMD ["node", "-e", "require('node:net').connect(8080, () => process.exit())"]
ENTRYPOINT ["node"]
