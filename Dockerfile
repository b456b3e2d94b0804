FROM python:3.11-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY config config
COPY proxy proxy
# The environment is all that the image takes over: it gets no pip of its own.
RUN python -m venv --without-pip /opt/pruning-proxy && \
    pip --python /opt/pruning-proxy/bin/python install --no-cache-dir '.[otel,encryption]'

FROM python:3.11-slim
COPY --from=build /opt/pruning-proxy /opt/pruning-proxy
# The base image leaves the standard library uncompiled, and who may not write there would compile it anew at each start.
RUN python -m compileall -q -x site-packages "$(python -c 'import os; print(os.path.dirname(os.__file__))')"
# Debian has a user `proxy` already. By its number, config/kubernetes.yaml can see that it is not root.
RUN useradd --system --uid 999 --create-home --home-dir /var/lib/pruning-proxy pruning-proxy
USER 999
WORKDIR /var/lib/pruning-proxy
VOLUME /var/lib/pruning-proxy
# Inside a container, loopback is nobody's: listen on every address and publish the port on 127.0.0.1 only.
ENV PATH=/opt/pruning-proxy/bin:$PATH \
    PRUNING_PROXY__SERVER__HOST=0.0.0.0 \
    PRUNING_PROXY__STORE__URL=sqlite:////var/lib/pruning-proxy/state.db
EXPOSE 8787
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s \
    CMD ["python", "-c", "import os, urllib.request as u; u.urlopen('http://127.0.0.1:' + os.environ.get('PRUNING_PROXY__SERVER__PORT', '8787') + '/healthz', timeout=2)"]
ENTRYPOINT ["pruning-proxy"]
CMD ["serve"]
