# The image of cert-service: compiled JavaScript on a slim Node, no package manager state, no root.
FROM node:24-bookworm-slim AS build
RUN install -d -o node -g node /build
WORKDIR /build
USER node
COPY --chown=node:node . .
ENV CI=true
RUN npx -y pnpm@12.21.0 install --frozen-lockfile --no-optional \
 && npx -y pnpm@12.21.0 run bundle

FROM node:24-bookworm-slim
LABEL org.opencontainers.image.title="Gatehouse cert-service" \
      org.opencontainers.image.description="TLS certificates over HTTP, from an embedded private CA" \
      org.opencontainers.image.licenses="MIT"
# Volumes take the owner of the folders they are first mounted on.
RUN install -d -o node -g node -m 0700 /var/lib/gatehouse /var/lib/gatehouse-key \
 && install -d /etc/gatehouse/cert-service
COPY --from=build /build/dist/cert-service /opt/gatehouse/cert-service
COPY docker/cert-service.yaml /etc/gatehouse/cert-service/config.yaml
USER node
VOLUME ["/var/lib/gatehouse", "/var/lib/gatehouse-key"]
EXPOSE 7401
ENV NODE_ENV=production GATEHOUSE_CONFIG=/etc/gatehouse/cert-service/config.yaml
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s --retries=3 \
  CMD ["node", "/opt/gatehouse/cert-service/main.js", "healthcheck"]
ENTRYPOINT ["node", "/opt/gatehouse/cert-service/main.js"]
CMD ["serve"]
